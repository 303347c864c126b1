package redact

import (
	"encoding/base64"
	"strings"
	"testing"
)

// TestKept: ordinary words stay, for a bundle without them is of no use.
func TestKept(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`"Created object" kind="Secret" object="kube-system/bootstrap-token-gqmrf3"`,
		"Secret garden/boot does not exist", "--bootstrap-token-auth-extra-groups=system:bootstrappers",
		"--control-kubeconfig=inClusterConfig", "secretRef: workers", "dataSecretName=blue-1", "token=",
		"Concern:  Credentials", "providerID: aws:///eu-1/i-0123456789abcdef0", "369bc99c-aa2d-5c13-837d-8cfcb4eb5c1c",
	} {
		if got := New().document(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// canary is in every secret of a test, followed by where it stands.
const canary = "c4n4ry"

func secretly(where string) string { return canary + "-" + where + "-0123456789" }

// TestConsole: a guest writes what it wants to its console, and what is kept of it shows no secret.
func TestConsole(t *testing.T) {
	t.Parallel()
	const first, last = "kubelet: x509: certificate signed by unknown authority", "containerd.service: ended"
	boot := strings.Join([]string{
		"#cloud-config", "password: Ab1" + canary, "write_files:", "- content: " + base64.StdEncoding.EncodeToString([]byte(
			"psk="+secretly("encoded")+"\n")), "runcmd:", "- [join, " + secretly("word") + "]", "- start containerd.service",
	}, "\n")
	for reason, line := range map[string]string{
		"a key":                            "-----BEGIN A KEY-----\n[ 1] ci: " + canary + "\n-----END A KEY-----",
		"a key that began before the end":  "[ 1.0] ci: " + inKey() + "\n[ 1.0] ci: -----END EC PRIVATE KEY-----",
		"a bootstrap token of a flag":      "kubeadm join a:6443 --token c4n4ry.0123456789abcdef",
		"a bootstrap token without a name": "failed with abcdef.c4n4ry0123456789",
		"a key of kubeadm":                 "--certificate-key " + strings.Repeat("c4n4ry00", 8),
		"a presigned URL":                  "https://b.example/boot?X-Amz-Signature=" + canary + "&X-Amz-Expires=6",
		"a temporary URL of Swift":         "GET http://b.example/c?temp_url_sig=" + canary,
		"a password in a URL":              "curl https://user:" + secretly("user") + "@b.example/",
		"a header":                         "Authorization: Bearer " + secretly("bearer"),
		"credentials of a cloud":           "aws_secret_access_key = " + secretly("aws"),
		"an ID of a cloud":                 "id AKIA" + strings.ToUpper(canary+canary+"abcd"),
		"a web token":                      "eyJhbGciOiJ9." + canary + ".a",
		"what cloud-init has chosen":       "Set the 'random' passwords\nroot:" + canary + "\nadmin:" + canary + "x",
		"a hash of a password":             "root:$6$" + canary + "$" + canary + ":19000",
		"a short password":                 "login with Ab1" + canary,
		"a word of the boot data":          "script says " + secretly("word"),
		"a file of the boot data":          "psk is " + secretly("encoded"),
		"base64 of what has a name":        encoded24(canary),
	} {
		got := Console(first+"\n"+line+"\n"+last+"\n", []byte(boot))
		if strings.Contains(strings.ToLower(got), canary) ||
			strings.Contains(got, line) {
			t.Errorf("%s survives in %q", reason, got)
		}
		if !strings.Contains(got, first) {
			t.Errorf("%q lost what is no secret\nbecause: the line that shows the cause is what is kept for", got)
		}
		if !strings.Contains(got, last) {
			t.Errorf("%q lost an ordinary word of the boot data\nbecause: %s is all that is to go", got, reason)
		}
	}
}

// inKey is a line of a key.
func inKey() string { return "MIIEpAIBAAKCAQEA" + canary + strings.Repeat("Zm9v", 11) }

func encoded24(s string) string {
	return base64.StdEncoding.EncodeToString([]byte("token: " + s + s + s + s))
}
