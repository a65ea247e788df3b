package mysqlconn

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestSecretsNeverPrint(t *testing.T) {
	target := Target{Name: "0123 side a", Host: "h", Port: 3306, Account: Account{User: "u", Password: "hunter2"}}
	js, err := json.Marshal(target)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprint(target), fmt.Sprintf("%v %+v %#v", target, target, target), fmt.Sprintf("%s %q %x", target.Password, target.Password, target.Password), string(js)} {
		if strings.Contains(s, "hunter2") || strings.Contains(s, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("the password shows in %s", s)
		}
	}
	if Config(target).Passwd != "hunter2" {
		t.Error("the driver does not get the password")
	}
}
