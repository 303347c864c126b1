package cloud_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

func TestCredentialsNeverPrintValues(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2"
	creds := cloud.Credentials{"password": []byte(secret), "user": []byte("somebody")}
	inside := struct {
		Creds   cloud.Credentials
		Pointer *cloud.Credentials
	}{creds, &creds}
	var texts []string
	for verb := range strings.SplitSeq("%v %+v %#v %s %q %x %X %d %t %o %b %c %e %p %U %T %10v %-5s % x", " ") {
		if verb == "%" || verb == "x" {
			continue
		}
		texts = append(texts, fmt.Sprintf(verb, creds), fmt.Sprintf(verb, &creds))
		if verb != "%p" { // which prints the fields of a struct without asking them; vet refuses it
			texts = append(texts, fmt.Sprintf(verb, inside))
		}
	}
	encoded, err := json.Marshal(inside)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("login", "creds", creds)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("login", "creds", creds)
	texts = append(texts, string(encoded), log.String(), fmt.Sprint(creds), creds.String(), creds.GoString())
	forms := []string{
		secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), fmt.Sprintf("%v", []byte(secret)),
		strings.Trim(fmt.Sprintf("%v", []byte(secret)), "[]"), "aHVudGVyMmh1bnRlcjI",
	}
	for _, text := range texts {
		for _, form := range forms {
			if strings.Contains(text, form) {
				t.Errorf("shows the value: %s", text)
			}
		}
	}
	if !strings.Contains(creds.String(), "password") || !strings.Contains(creds.String(), "user") {
		t.Errorf("got %s, want the keys", creds)
	}
}

func TestGroupsOfSecretKeys(t *testing.T) {
	t.Parallel()
	declared := cloud.SecretKeys{Address: []string{"url"}, Credential: []string{"token"}, Public: []string{"user"}}
	cases := map[string]struct {
		reason              string
		traits              cloud.Traits
		key                 string
		address, credential bool
	}{
		"address":         {"it is declared", cloud.Traits{Secret: declared}, "url", true, false},
		"credential":      {"it is declared", cloud.Traits{Secret: declared}, "token", false, true},
		"public":          {"a name is no credential", cloud.Traits{Secret: declared}, "user", false, false},
		"not declared":    {"the driver does not read it", cloud.Traits{Secret: declared}, "region", false, false},
		"boot data":       {"it is for the VM", cloud.Traits{Secret: declared}, "userData", false, false},
		"nothing is said": {"the driver may read all", cloud.Traits{}, "url", false, true},
		"legacy, unknown": {
			"the adapter's driver may read all", cloud.Traits{Legacy: true, Secret: declared}, "key", false, true,
		},
		"legacy, address":   {"it is declared", cloud.Traits{Legacy: true, Secret: declared}, "url", true, false},
		"legacy, public":    {"it is declared", cloud.Traits{Legacy: true, Secret: declared}, "user", false, false},
		"legacy, boot data": {"it is for the VM", cloud.Traits{Legacy: true}, "userDataSpec", false, false},
	}
	for name, tc := range cases {
		if a, c := tc.traits.IsAddress(tc.key), tc.traits.IsCredential(tc.key); a != tc.address || c != tc.credential {
			t.Errorf("%s: got address %v, credential %v, want %v, %v\nbecause: %s", name, a, c, tc.address, tc.credential,
				tc.reason)
		}
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	base := cloud.Credentials{"a": []byte("1"), "b": []byte("2"), "userData": []byte("x")}
	cases := map[string]struct {
		reason string
		other  cloud.Credentials
		equal  bool
	}{
		"Equal": {"equal entries are equal credentials", cloud.Credentials{
			"b": []byte("2"), "a": []byte("1"),
			"userData": []byte("x"),
		}, true},
		"User data": {"what does not count does not count", cloud.Credentials{
			"a": []byte("1"), "b": []byte("2"),
			"userData": []byte("y"),
		}, true},
		"Spec": {"nor does the spec of user data", cloud.Credentials{
			"a": []byte("1"), "b": []byte("2"), "userDataSpec": []byte("y"),
		}, true},
		"No user data": {"nor does its absence", cloud.Credentials{"a": []byte("1"), "b": []byte("2")}, true},
		"Other value":  {"rotation changes it", cloud.Credentials{"a": []byte("1"), "b": []byte("3")}, false},
		"Other key": {
			"a value under another key is another credential",
			cloud.Credentials{"a": []byte("1"), "c": []byte("2")},
			false,
		},
		"Shifted": {"a border between key and value counts", cloud.Credentials{"a1": nil, "b": []byte("2")}, false},
		"Empty entry": {
			"an empty entry is an entry",
			cloud.Credentials{"a": []byte("1"), "b": []byte("2"), "c": nil},
			false,
		},
		"No entries":    {"nothing is not something", nil, false},
		"Forged length": {"a value cannot pretend to be two entries", cloud.Credentials{"a": []byte("11:b1:2")}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.other.Fingerprint() == base.Fingerprint(); got != c.equal {
				t.Errorf("equal: %v, want %v; reason: %s", got, c.equal, c.reason)
			}
		})
	}
	if strings.Contains(base.Fingerprint(), "1") && len(base.Fingerprint()) != 64 {
		t.Errorf("fingerprint %q, want 64 hex digits", base.Fingerprint())
	}
}
