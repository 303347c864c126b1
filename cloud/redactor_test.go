package cloud_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

const (
	apiToken = "Zk3v0Qm81LxWcPeT7sYbHn5JrAu2DgKfXoVi9MtRh4BzEwCy6NqSjUlGpIdFaO8+/x?"
	keyBlock = "-----BEGIN PRIVATE " + "KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n" +
		"VJTUt9Us8cKjMzEfYyjiWA4R4Rm2bS1GB4t7NXp98C3SC6dVMvDu\nictGeurT8jNbvJZHtCSuYEvu\n-----END PRIVATE KEY-----\n"
)

// quoting is a driver with a token, an address and a document of which a part is secret.
type quoting struct{ cloud.Driver }

func (quoting) Traits() cloud.Traits {
	return cloud.Traits{Name: "quoting", Secret: cloud.SecretKeys{
		Address: []string{"url"}, Credential: []string{"token", "document"}, Public: []string{"user"},
	}}
}

func (quoting) SecretsIn(key string, value []byte) ([]string, bool) {
	if key != "document" {
		return nil, false
	}
	var all struct{ Key, Project string }
	err := json.Unmarshal(value, &all)
	return []string{all.Key}, err == nil
}

func quotingCredentials() cloud.Credentials {
	document, _ := json.Marshal(map[string]string{"key": keyBlock, "project": "my-favourite-project"})
	return cloud.Credentials{
		"token": []byte(apiToken), "url": []byte("https://cloud.example.com:5000/v3"), "user": []byte("administrator-1"),
		"document": document,
	}
}

// TestPartsOfCredentials: a cloud that quotes a part of a credential gives it away.
func TestPartsOfCredentials(t *testing.T) {
	t.Parallel()
	r := cloud.RedactorOf(quoting{}, quotingCredentials())
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	const begin = "limit of token '"
	for name, row := range map[string]struct{ reason, text, want string }{
		"first half": {"a rate limit names it", begin + apiToken[:32] + "' reached", begin + "[redacted]' reached"},
		"middle":     {"any part counts", begin + apiToken[20:40] + "'", begin + "[redacted]'"},
		"end":        {"any part counts", begin + apiToken[len(apiToken)-12:] + "'", begin + "[redacted]'"},
		"whole":      {"as before", begin + apiToken + "'", begin + "[redacted]'"},
		"two parts":  {"each is masked", apiToken[:12] + " and " + apiToken[13:30], "[redacted] and [redacted]"},
		"in a word":  {"a part may be within a word", "x" + apiToken[5:20] + "y", "x[redacted]y"},
		"base64":     {"a header has it so", "Basic " + b64(apiToken[:33]), "Basic [redacted]"},
		"base64 after a name": {
			"what is before it moves the characters", b64("user:" + apiToken)[:40] + "!",
			b64("user:" + apiToken)[:8] + "[redacted]!",
		},
		"URL":           {"a query has it so", "?t=" + url.QueryEscape(apiToken[50:]), "?t=[redacted]"},
		"line of a key": {"a key is quoted by lines", "bad line MIIEvQIBADANBgkq", "bad line [redacted]"},
		"key in JSON": {
			"JSON writes the ends of lines as \\n", `"VJTUt9Us8cKjMzEfYyjiWA4R4Rm2bS1GB4t7NXp98C3SC6dVMvDu\nictGeurT8jNb"`,
			`"[redacted]"`,
		},
		"short part": {"ordinary words are as long", "value '" + apiToken[:11] + "'", "value '" + apiToken[:11] + "'"},
		"part of a URL": {
			"errors have to say where", "no route to cloud.example.com:5000", "no route to cloud.example.com:5000",
		},
		"project": {"it is public in the document", "in my-favourite-project", "in my-favourite-project"},
		"part of a user": {
			"it only names somebody", "user administrator may not", "user administrator may not",
		},
		"PEM line": {
			"it is in every key", "no " + keyBlock[:27] + " found", "no " + keyBlock[:27] + " found",
		},
	} {
		if got := r.Text(row.text); got != row.want {
			t.Errorf("%s: got %q, want %q\nbecause: %s", name, got, row.want, row.reason)
		}
	}
}

// TestRedactedErrors: the code, the reason and the chain stay; the driver's own error does, too.
func TestRedactedErrors(t *testing.T) {
	t.Parallel()
	r := cloud.RedactorOf(quoting{}, quotingCredentials())
	cause := errors.New("refused " + apiToken[:20])
	given := &cloud.Error{
		Code: cloud.Throttled, Op: "list", Reason: "RateLimit", Err: cause,
		Problems: []cloud.Problem{{Field: "token", Message: "is " + apiToken[3:19]}},
	}
	err := r.Error("open", fmt.Errorf("around: %w", given))
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Code != cloud.Throttled || e.Reason != "RateLimit" || e.Op != "list" || !errors.Is(err, cause) {
		t.Errorf("got %#v, want the code, the reason and the chain", err)
	}
	if text := fmt.Sprintf("%v %+v %v", err, e.Problems, e.Err); strings.Contains(text, apiToken[:12]) ||
		strings.Contains(text, apiToken[3:15]) || !strings.Contains(text, "refused [redacted]") {
		t.Errorf("got %s", text)
	}
	if !strings.Contains(given.Problems[0].Message, apiToken[3:19]) {
		t.Errorf("the given error was changed: %v", given)
	}
	var none *cloud.Redactor
	if none.Text("text") != "text" || none.Error("op", nil) != nil || none.Error("op", cause) == nil {
		t.Error("without a redactor a text changes, or an error is lost")
	}
}

// FuzzRedactor: no run of 12 bytes of a secret is left in a text, whatever is around it, and a text
// without one stays as it is.
func FuzzRedactor(f *testing.F) {
	f.Add(apiToken, "limit of token '"+apiToken[:32]+"' reached", 3, 20)
	f.Add(keyBlock, "bad key", 40, 90)
	f.Add("aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaa", 0, 12)
	f.Add("short-secret", "", 0, 12)
	f.Fuzz(func(t *testing.T, secret, text string, from, to int) {
		if strings.Contains(secret, "[") || strings.Contains(secret, "redacted") || strings.Contains(secret, "-----") {
			t.Skip("the mask and what begins a key are no secrets")
		}
		secret = strings.TrimSpace(secret)
		r := cloud.NewRedactor(nil, []string{secret})
		if from >= 0 && from < to && to <= len(secret) {
			text += secret[from:to] + text
		}
		got, left := r.Text(text), false
		for at := 0; at+12 <= len(secret); at++ {
			left = left || strings.Contains(text, secret[at:at+12])
			if strings.Contains(got, secret[at:at+12]) {
				t.Fatalf("%q still has %q of the secret", got, secret[at:at+12])
			}
		}
		if left && got == text {
			t.Errorf("%q stayed as it is", text)
		}
		if len(secret) < 12 && got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}

// BenchmarkRedactor masks a megabyte of a console.
func BenchmarkRedactor(b *testing.B) {
	r := cloud.RedactorOf(quoting{}, quotingCredentials())
	text := strings.Repeat("[   12.345678] systemd[1]: Started kubelet.service - Kubernetes agent on node-1.\n", 12500)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_ = r.Text(text)
	}
}
