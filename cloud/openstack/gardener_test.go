package openstack

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest/gardener"
)

// TestGardenerCodes: what the services answer is read from a machine by Gardener as with MCM's driver, with MCM's own
// word where the expressions look for it.
func TestGardenerCodes(t *testing.T) {
	t.Parallel()
	c := &config{Spec: spec{Region: "r", FlavorName: "f", ImageID: "i"}}
	const noHost = "No valid host was found. There are not enough hosts available."
	mcm := func(code, message string) string {
		return "Cloud provider message - machine codes error: code = [" + code + "] message = [" + message + "]"
	}
	cases := map[string]gardener.Case{}
	for _, x := range []struct {
		status int
		body   string
	}{
		{403, `{"forbidden": {"code": 403, "message": "Quota exceeded for cores: Requested 1, but already used 15"}}`},
		{403, `{"overLimit": {"code": 403, "message": "Maximum number of ports exceeded"}}`},
		{403, `{"forbidden": {"code": 403, "message": "Policy doesn't allow servers:create to be performed."}}`},
		{403, `{"NeutronError": {"type": "PolicyNotAuthorized", "message": "rule:create_port is disallowed by policy"}}`},
		{409, `{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['port']."}}`},
		{409, `{"NeutronError": {"type": "IpAddressGenerationFailure", "message": "No more IP addresses on network x."}}`},
		{404, `{"NeutronError": {"type": "NetworkNotFound", "message": "Network x could not be found."}}`},
		{404, `{"itemNotFound": {"code": 404, "message": "Security group x could not be found."}}`},
		{413, `{"overLimit": {"code": 413, "message": "VolumeSizeExceedsAvailableQuota: Requested volume exceeds quota."}}`},
		{400, `{"badRequest": {"code": 400, "message": "Invalid key_name provided."}}`},
		{401, `{"error": {"code": 401, "title": "Unauthorized", "message": "The request requires authentication."}}`},
		{409, `{"conflictingRequest": {"code": 409, "message": "Port x is still in use."}}`},
		{429, `{"overLimit": {"code": 429, "message": "Too many requests"}}`},
	} {
		a := driverkit.Answer{Status: x.status}
		a.Code, a.Message = said([]byte(x.body))
		text := mcm("Internal", fmt.Sprintf("Expected HTTP response code [200] when accessing [POST http://x/servers], but "+
			"got %d instead: %s", x.status, x.body))
		cases["create "+x.body] = gardener.Case{
			Ours: c.refusedServer(cloud.CreateRequest{}, reactions.Error(opCreate, a)), MCM: text,
		}
		cases["delete "+x.body] = gardener.Case{Ours: driverkit.Restrict(reactions.Error(opDelete, a)), MCM: text}
	}
	failed := server{ID: "s", Status: statusError, Metadata: map[string]string{attemptKey: "t"}}
	failed.Fault.Message = noHost
	account := open(t, func(*http.Request, string) (int, string) { return 204, "" })
	cases["no host"] = gardener.Case{
		Ours: account.takeBack(t.Context(), c, cloud.CreateRequest{Token: "t"}, failed),
		MCM:  mcm("ResourceExhausted", noHost),
	}
	cases["no flavor"] = gardener.Case{
		Ours: c.refusedFlavor(cloud.CreateRequest{}, cloud.Errorf(cloud.NotFound, opCreate, reasonNoFlavor, "no flavor")),
		MCM: mcm("ResourceExhausted", "failed to deploy server: error resolving flavor ID from flavor name \"f\": Unable to "+
			"find flavor with name f"),
	}
	for _, body := range []string{
		`{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}`,
		`{"error": {"code": 404, "title": "Not Found", "message": "Could not find Application Credential: 1f0c."}}`,
	} {
		a := driverkit.Answer{Status: 401}
		if a.Code, a.Message = said([]byte(body)); a.Code != "Unauthorized" {
			a.Status = 404
		}
		cases["login "+body] = gardener.Case{
			Ours: refused(reactions.Error(opLogin, a)),
			MCM: mcm("Internal", fmt.Sprintf("failed to construct OpenStack client: Expected HTTP response code [201 202] when "+
				"accessing [POST http://x/v3/auth/tokens], but got %d instead: %s", a.Status, body)),
		}
	}
	if !errors.As(cases["no host"].Ours, new(*cloud.Error)) {
		t.Fatal("a server without host is no error")
	}
	gardener.Compare(t, "openstack", cases, nil)
}
