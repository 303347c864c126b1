package bootdata_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/bootdata"
)

// TestCloudInit lets a real cloud-init process the user data, at a first boot and at another
// one when the object has gone.
func TestCloudInit(t *testing.T) {
	t.Parallel()
	python := pythonWithCloudInit(t)
	const multi = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n" +
		"Content-Type: text/cloud-config\n\n#cloud-config\n{}\n--b--\n"
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = zip.Write([]byte(content))
	_ = zip.Close()
	for name, tc := range map[string]struct{ data, kind, want string }{
		"Jinja":  {content, "text/jinja2", content},
		"Packed": {packed.String(), "text/jinja2", content},
		"Script": {"#!/bin/sh\ndate\n", "text/x-shellscript", "#!/bin/sh\ndate\n"},
		"Config": {"#cloud-config\n{}\n", "text/cloud-config", "#cloud-config\n{}\n"},
		"Multi":  {multi, "text/cloud-config", "#cloud-config\n{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEnv(t)
			server := httptest.NewServer(s.s3)
			defer server.Close()
			s.service.Endpoint = server.URL
			dir := t.TempDir()
			file := filepath.Join(dir, "user-data")
			if err := os.WriteFile(file, s.keep(request(tc.data)), 0o600); err != nil {
				t.Fatal(err)
			}
			want := tc.kind + " " + base64.StdEncoding.EncodeToString([]byte(tc.want))
			for _, boot := range []string{"first boot", "boot without the object"} {
				command := exec.CommandContext(t.Context(), python, "testdata/include.py", file, filepath.Join(dir, "cloud"))
				command.Env = append(os.Environ(), "no_proxy=127.0.0.1")
				out, err := command.CombinedOutput()
				if err != nil || strings.TrimSpace(string(out)) != want {
					t.Errorf("%s: %v, %s, want %s", boot, err, out, want)
				}
				s.empty(s.store())
			}
		})
	}
}

// pythonWithCloudInit returns a Python that has cloud-init; without one the test is skipped.
func pythonWithCloudInit(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} { // that of Debian's packages may not come first
		if exec.CommandContext(t.Context(), python, "-c", "import cloudinit.user_data").Run() == nil {
			return python
		}
	}
	t.Skip("no python3 here has cloud-init: install the Debian package cloud-init")
	return ""
}

// empty deletes the machine's objects.
func (s *env) empty(of bootdata.Store) {
	s.Helper()
	for key, err := range of.Of(s.Context(), "list", request("").Ref) {
		if err == nil {
			err = of.Delete(s.Context(), "delete", key)
		}
		if err != nil {
			s.Fatal(err)
		}
	}
}
