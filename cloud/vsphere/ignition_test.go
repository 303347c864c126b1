package vsphere

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIgnition(t *testing.T) {
	t.Parallel()
	for guest, directory := range map[string]string{"coreos64Guest": "coreos", "other4xLinux64Guest": "flatcar"} {
		s := spec{GuestID: guest, SSHKeys: []string{"k"}}
		inVApp, err := s.boot(request("data"), config(ignitionProperty))
		must(t, err)
		inExtra, err := s.boot(request("data"), config())
		must(t, err)
		text := values(inVApp)["vapp "+ignitionProperty]
		decoded, err := base64.StdEncoding.DecodeString(values(inExtra)["extra "+ignitionProperty])
		must(t, err)
		if string(decoded) != text {
			t.Errorf("%s: guest information %q, vApp property %q, want the same", guest, decoded, text)
		}
		var document struct {
			Ignition struct{ Version string }
			Storage  struct{ Files []struct{ Path string } }
		}
		must(t, json.Unmarshal([]byte(text), &document))
		if document.Ignition.Version != "2.1.0" || document.Storage.Files[1].Path != "/var/lib/"+directory+
			"-install/user_data" {
			t.Errorf("%s: got %+v", guest, document)
		}
	}
}

// TestIgnitionAsItIs: Ignition reads no document inside of another, nor cloud-init's guest information, so
// what userdata generates for Flatcar has to arrive as it is.
func TestIgnitionAsItIs(t *testing.T) {
	t.Parallel()
	const document = `{"ignition":{"version":"3.4.0"}}`
	for _, guest := range []string{"coreos64Guest", "other4xLinux64Guest", "other5xLinux64Guest", ""} {
		b, err := (&spec{GuestID: guest}).boot(request(document), config())
		must(t, err)
		want := map[string]string{
			"extra " + ignitionProperty:               base64.StdEncoding.EncodeToString([]byte(document)),
			"extra " + ignitionProperty + ".encoding": "base64",
		}
		if diff := cmp.Diff(want, values(b)); diff != "" {
			t.Errorf("%q: %s", guest, diff)
		}
	}
	_, err := (&spec{SSHKeys: []string{"k"}}).boot(request(document), config())
	if err == nil || !strings.Contains(err.Error(), "passwd.users") {
		t.Errorf("with SSH keys: %v, want to be told where they belong", err)
	}
}
