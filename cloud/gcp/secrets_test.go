package gcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/gcp"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/gcptest"
)

// TestPublicFieldsOfAKey: errors name the project, the account and the address, and no part of the key.
func TestPublicFieldsOfAKey(t *testing.T) {
	t.Parallel()
	var key struct {
		ID      string `json:"private_key_id"`
		Key     string `json:"private_key"`
		Email   string `json:"client_email"`
		Project string `json:"project_id"`
	}
	if err := json.Unmarshal(gcptest.Key(), &key); err != nil {
		t.Fatal(err)
	}
	r := cloud.RedactorOf(gcp.NewDriver(gcp.Options{}), credentials())
	public := key.Email + " may not get project " + key.Project + " at https://oauth2.googleapis.com/token"
	if got := r.Text(public); got != public {
		t.Errorf("got %q, want it as it is", got)
	}
	for _, line := range strings.Fields(strings.ReplaceAll(key.Key, "-----", " \n "))[3:] {
		const run = 12
		if len(line) > 2*run && r.Text("near "+line[5:5+run]) != "near [redacted]" {
			t.Errorf("%q of the key is shown as %q", line[5:5+run], r.Text("near "+line[5:5+run]))
		}
	}
	if text := "key " + key.ID; len(key.ID) >= 6 && r.Text(text) != "key [redacted]" {
		t.Errorf("the id of the key is shown: %q", r.Text(text))
	}
}
