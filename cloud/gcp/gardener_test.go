package gcp

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest/gardener"
)

// TestGardenerCodes: what Compute Engine answers, and what its operations end with, is read from a machine by Gardener
// as with MCM's driver.
func TestGardenerCodes(t *testing.T) {
	t.Parallel()
	const head = "Cloud provider message - machine codes error: code = [Internal] message = ["
	cases := map[string]gardener.Case{}
	for _, row := range table {
		for _, pattern := range row.Codes {
			code := gardener.Code(pattern)
			cases["operation "+code] = gardener.Case{
				Ours: table.Error("create instance", driverkit.Answer{Code: code, Message: "said Google"}),
				MCM:  head + fmt.Sprintf("[{%s said Google}]]", code),
			}
			body := fmt.Sprintf(`{"error": {"code": 403, "message": "said Google", "errors": [{"reason": %q}]}}`, code)
			said := driverkit.Answer{Status: http.StatusForbidden}
			said.Code, said.Message = refusal([]byte(body))
			for _, op := range []string{"create instance", "delete instance"} {
				cases[op+" "+code] = gardener.Case{
					Ours: driverkit.Restrict(table.Error(op, said)),
					MCM:  head + fmt.Sprintf("googleapi: Error 403: said Google, %s]", code),
				}
			}
		}
	}
	gardener.Compare(t, "gcp", cases, nil)
}
