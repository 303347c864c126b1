package openstack

import (
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TestPublicPartsOfCloudsYAML: errors name the address and the user, and no part of a password.
func TestPublicPartsOfCloudsYAML(t *testing.T) {
	t.Parallel()
	const text = `
clouds:
  a: {auth: {auth_url: "https://keystone.example.com:5000/v3", username: administrator, password: Zk3v0Qm81LxWcPeT7sYb}}
  b: {auth: {application_credential_id: 0123456789abcdef, application_credential_secret: Hn5JrAu2DgKfXoVi9MtRh4Bz}}
`
	r := cloud.RedactorOf(&Driver{}, cloud.Credentials{keyCloudsYAML: []byte(text)})
	for text, want := range map[string]string{
		"no answer of https://keystone.example.com:5000/v3": "no answer of https://keystone.example.com:5000/v3",
		"user administrator of 0123456789abcdef":            "user administrator of 0123456789abcdef",
		"password Zk3v0Qm81LxW is wrong":                    "password [redacted] is wrong",
		"secret 2DgKfXoVi9MtRh4 is wrong":                   "secret [redacted] is wrong",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
