package azure

import (
	"fmt"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest/gardener"
)

// TestGardenerCodes: what Azure answers is read from a machine by Gardener as with MCM's driver, but for the phrase of
// the HTTP status, which is no code of Azure's: "409 Conflict" counts as a dependency there by accident.
func TestGardenerCodes(t *testing.T) {
	t.Parallel()
	cases := map[string]gardener.Case{}
	for _, row := range table {
		message := "said Azure"
		if len(row.Texts) > 0 {
			message = "Operation could not be completed as it results in exceeding approved " + row.Texts[0] + " cores quota"
		}
		for _, pattern := range row.Codes {
			code := gardener.Code(pattern)
			for _, op := range []string{opCreate, opDelete} {
				cases[op+" "+code+": "+message] = gardener.Case{
					Ours: driverkit.Restrict(table.Error(op, driverkit.Answer{Status: row.Status, Code: code, Message: message})),
					MCM: fmt.Sprintf("Cloud provider message - machine codes error: code = [Internal] message = [PUT "+
						"https://management.azure.com/\n---\nERROR CODE: %s\n---\n{\"error\": {\"code\": %q, \"message\": %q}}]", code,
						code, message),
				}
			}
		}
	}
	gardener.Compare(t, "azure", cases, nil)
}
