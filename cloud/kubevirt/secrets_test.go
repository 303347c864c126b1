package kubevirt

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TestPublicPartsOfAKubeconfig: errors name the server and show its authority's certificate, and no
// part of a token or a key of any user.
func TestPublicPartsOfAKubeconfig(t *testing.T) {
	t.Parallel()
	const token = "Zk3v0Qm81LxWcPeT7sYbHn5JrAu2DgKf"
	const key = "-----BEGIN EC PRIVATE " + "KEY-----\nMHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtL\n"
	encoded := base64.StdEncoding.EncodeToString([]byte(key))
	text := strings.NewReplacer("TOKEN", token, "KEY", encoded).Replace(`
current-context: a
clusters:
- {name: a, cluster: {server: "https://kubevirt.example.com:6443", certificate-authority-data: Y2VydGlmaWNhdGU=}}
users: [{name: a, user: {token: TOKEN}}, {name: b, user: {client-key-data: KEY, password: hunter22}}]
`)
	r := cloud.RedactorOf(Offline(), cloud.Credentials{kubeconfigEntry: []byte(text)})
	for text, want := range map[string]string{
		"dial https://kubevirt.example.com:6443: refused": "dial https://kubevirt.example.com:6443: refused",
		"authority Y2VydGlmaWNhdGU= is unknown":           "authority Y2VydGlmaWNhdGU= is unknown",
		"token " + token[3:20] + " has expired":           "token [redacted] has expired",
		"bad key data " + encoded[50:70]:                  "bad key data [redacted]",
		"bad key MHcCAQEEIIrYSSNQ":                        "bad key [redacted]",
		"password hunter22":                               "password [redacted]",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
