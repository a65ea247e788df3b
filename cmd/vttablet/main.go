// Command vttablet is Vitess' vttablet with our vindexes linked in: VReplication and
// in_keyrange() compute keyspace ids in the tablet.
package main

import (
	"fmt"
	"net/http"
	"os"

	"vitess.io/vitess/go/cmd/vttablet/cli"
	"vitess.io/vitess/go/vt/log"
	"vitess.io/vitess/go/vt/servenv"
	"vitess.io/vitess/go/vt/utils"

	_ "github.com/vifl/vifl/vindexes"
)

func init() {
	// As in Vitess' own: what nobody serves leads to the status page.
	servenv.HTTPHandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/debug/status", http.StatusFound)
	})
}

func main() {
	cli.Main.SetGlobalNormalizationFunc(utils.NormalizeUnderscoresToDashes)
	if err := cli.Main.Execute(); err != nil {
		log.Error(fmt.Sprint(err))
		os.Exit(1)
	}
}
