package userdata

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap"
)

var update = flag.Bool("update", false, "write the golden files")

// samples are a spec of each operating system; those of Ubuntu and Flatcar use nearly every field.
var samples = []string{"ubuntu", "debian", "flatcar", "rhel", "rocky", "amazon-linux"}

// budget is what AWS takes, the least of the clouds. MCM compresses cloud-config above it.
const budget = 16 << 10

func load(t *testing.T, file string) *MachineUserData {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Decode(data)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return m
}

func sample(t *testing.T, name string) *MachineUserData {
	t.Helper()
	return load(t, filepath.Join("testdata", name+".yaml"))
}

func generate(t *testing.T, m *MachineUserData) []byte {
	t.Helper()
	out, err := Generate(m)
	if err != nil {
		t.Fatal(err)
	}
	return out.Data
}

// TestGolden: a change of the output replaces every machine of a pool, so it is seen in a review.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, name := range samples {
		got := generate(t, sample(t, name))
		file := filepath.Join("testdata", "golden", name+".txt")
		if *update {
			if err := os.WriteFile(file, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s differs; if that is meant, run go test ./userdata -update:\n%s", file, diff)
		}
	}
}

// TestSize: the machine of a spec with nearly every field boots on the cloud with the least room,
// after the compression that the manager does.
func TestSize(t *testing.T) {
	t.Parallel()
	for _, name := range samples {
		data := generate(t, sample(t, name))
		packed, err := bootstrap.Pack(data, budget)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %d bytes, %d as sent", name, len(data), len(packed))
	}
}

// TestDeterministic: an equal spec must not look like a change of a pool.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	for _, name := range samples {
		first := generate(t, sample(t, name))
		for range 5 {
			if !bytes.Equal(first, generate(t, sample(t, name))) {
				t.Fatalf("%s: two outputs of one spec differ", name)
			}
		}
	}
}

// TestManagerFills: the manager finds every placeholder, also in ignition, where it looks for encoded
// ones only if there is no plain one.
func TestManagerFills(t *testing.T) {
	t.Parallel()
	for _, name := range samples {
		data := generate(t, sample(t, name))
		if !bootstrap.NeedsToken(data) {
			t.Errorf("%s: the manager would make no token", name)
		}
		filled, err := bootstrap.Fill(data, bootstrap.Values{MachineName: "pool-1", Token: "abcdef.0123456789abcdef"})
		if err != nil {
			t.Fatal(err)
		}
		machine := read(t, filled)
		got := machine.files["/etc/kubernetes/bootstrap-kubelet.conf"]
		if !bytes.Contains(got, []byte("abcdef.0123456789abcdef")) {
			t.Errorf("%s: the kubelet bootstraps with %s", name, got)
		}
		for path, content := range machine.files {
			if hasPlaceholder(content) {
				t.Errorf("%s: a placeholder is left in %s", name, path)
			}
		}
	}
}

// TestFormatsAgree: Ubuntu and Flatcar get the same files from the same spec, up to what their
// formats have keys for.
func TestFormatsAgree(t *testing.T) {
	t.Parallel()
	cloudInit, ignition := read(t, generate(t, sample(t, "ubuntu"))), read(t, generate(t, sample(t, "flatcar")))
	for _, path := range []string{
		"/opt/mcm/setup.sh", "/etc/kubernetes/kubelet.yaml", "/etc/containerd/config.toml", "/etc/example/binary",
		"/etc/systemd/system/kubelet.service", "/etc/systemd/system/kubelet.service.d/20-nice.conf",
		"/opt/mcm/commands/hello",
	} {
		if len(cloudInit.files[path]) == 0 || !bytes.Equal(cloudInit.files[path], ignition.files[path]) {
			t.Errorf("%s: %q and %q", path, cloudInit.files[path], ignition.files[path])
		}
		if cloudInit.modes[path] != ignition.modes[path] {
			t.Errorf("%s: mode %o and %o", path, cloudInit.modes[path], ignition.modes[path])
		}
	}
	if got := cloudInit.files["/etc/example/binary"]; !bytes.Equal(got, []byte{0, 1, 2, 3, 4, 5, 255}) {
		t.Errorf("a file in base64 arrives as %v", got)
	}
}

// TestIgnitionIsJSON: Ignition reads no comments, and one document.
func TestIgnitionIsJSON(t *testing.T) {
	t.Parallel()
	if !json.Valid(generate(t, sample(t, "flatcar"))) {
		t.Error("it is no JSON")
	}
}

// TestSamplesOfTheRepository: what users copy is accepted.
func TestSamplesOfTheRepository(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../config/samples/userdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d samples: %v", len(files), err)
	}
	for _, file := range files {
		generate(t, load(t, file))
	}
}
