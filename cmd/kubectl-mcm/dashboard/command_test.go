package dashboard

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/fleet"
)

// typeOf is the type of a list, with its package: both APIs have Machines.
func typeOf(list any) string {
	return reflect.TypeOf(list).Elem().PkgPath() + "." + reflect.TypeOf(list).Elem().Name()
}

// fileOf is the file that --output writes.
func fileOf(t *testing.T, c *clusters) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "incident.html")
	cmd := New(c.deps())
	cmd.SetArgs([]string{"-o", file})
	cmd.SetErr(io.Discard)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: others may read the file", info, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestCommandRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--address 0.0.0.0:0":         "loopback addresses only",
		"--address :0":                "loopback addresses only",
		"--address 192.0.2.1:80":      "loopback addresses only",
		"--address example.com:80":    "loopback addresses only",
		"--address 127.0.0.1":         "missing port",
		"-o json":                     "name one that ends in .html",
		"-l a=b=c":                    "--selector=",
		"-o /nowhere/at/all/out.html": "--output=",
		"workers":                     "unknown command",
	} {
		cmd := New(clustersWith(t, pools()...).deps())
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(strings.Fields(args))
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", args, err, want)
		}
	}
}

// TestServes: the command prints a URL that answers, and ends without an error when it is interrupted.
func TestServes(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	out, in := io.Pipe()
	cmd := New(clustersWith(t, pools()...).deps())
	cmd.SetArgs(nil)
	cmd.SetOut(in)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(string(line[:n]))
	answer, err := http.Get(url)
	if err != nil {
		t.Fatalf("%v of %q", err, line[:n])
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || !bytes.Contains(text, []byte("kubectl mcm dashboard")) {
		t.Errorf("%v: %s", err, text)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("an interrupt is a failure: %v", err)
	}
}

// TestFileWithoutSecrets: a file for others has nothing that looks like a secret, loads nothing, and its policy
// allows its own script and style.
func TestFileWithoutSecrets(t *testing.T) {
	t.Parallel()
	objects := fleet.Native()
	const canary = "canary-0123456789"
	objects[8].(*machinev1.Machine).Status.Progress.Conditions[0].Message = "refused: password=" + canary
	text := string(fileOf(t, clustersWith(t, objects...)))
	if strings.Contains(text, canary) {
		t.Error("the file has a secret of a message")
	}
	for _, want := range []string{
		"default-src 'none'; script-src 'sha256-", hash(script()), hash(style), "workers-abcde-3",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the file has no %q", want)
		}
	}
	for _, outside := range []string{"http://", "https://", "src=", "href=\"/"} {
		if strings.Contains(text, outside) {
			t.Errorf("the file has %q", outside)
		}
	}
}

// TestPermissions: ClusterRole kubectl-mcm-reader suffices, and no Secret is read.
func TestPermissions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../config/rbac/reader_role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.Unmarshal(text, &role); err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for _, rule := range role.Rules {
		allowed = append(allowed, rule.Resources...)
	}
	c := clustersWith(t, pools()...)
	fileOf(t, c)
	for kind := range c.lists {
		plural := strings.ToLower(strings.TrimSuffix(kind[strings.LastIndex(kind, ".")+1:], "List"))
		if !slices.Contains(allowed, plural+"s") && !slices.Contains(allowed, plural+"es") {
			t.Errorf("%s are read, which the role does not allow: %v", kind, allowed)
		}
	}
	if c.gets > 0 || len(c.lists) < 10 {
		t.Errorf("%d objects were read one by one, and %d kinds as lists; want no Secret", c.gets, len(c.lists))
	}
}
