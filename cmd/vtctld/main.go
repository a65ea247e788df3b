// Command vtctld is Vitess' vtctld with our vindexes linked in: ApplyVSchema builds
// every vindex that the vschema names.
package main

import (
	"fmt"
	"os"

	"vitess.io/vitess/go/cmd/vtctld/cli"
	"vitess.io/vitess/go/vt/log"
	"vitess.io/vitess/go/vt/utils"

	_ "github.com/vifl/vifl/vindexes"
)

func main() {
	cli.Main.SetGlobalNormalizationFunc(utils.NormalizeUnderscoresToDashes)
	if err := cli.Main.Execute(); err != nil {
		log.Error(fmt.Sprint(err))
		os.Exit(1)
	}
}
