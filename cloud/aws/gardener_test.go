package aws

import (
	"fmt"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest/gardener"
)

// TestGardenerCodes: what EC2 answers is read from a machine by Gardener as with MCM's driver.
func TestGardenerCodes(t *testing.T) {
	t.Parallel()
	cases := map[string]gardener.Case{}
	for _, row := range table {
		for _, pattern := range row.Codes {
			code := gardener.Code(pattern)
			for _, op := range []string{opCreate, opDelete} {
				cases[op+" "+code] = gardener.Case{
					Ours: driverkit.Restrict(table.Error(op, driverkit.Answer{Status: 400, Code: code, Message: "said EC2"})),
					MCM: fmt.Sprintf("Cloud provider message - machine codes error: code = [Internal] message = [operation error "+
						"EC2: X, https response error StatusCode: 400, RequestID: r, api error %s: said EC2]", code),
				}
			}
		}
	}
	gardener.Compare(t, "aws", cases, nil)
}
