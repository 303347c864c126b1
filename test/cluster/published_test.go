package cluster_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// published are the programs of an archive of envtest.
var published = []string{"etcd", "kube-apiserver", "kubectl"}

// TestPublishedBinaries: the demo downloads the published binaries of the API server
// from the index in ENVTEST_INDEX, keeps them, and builds from source if the index does
// not answer or the archive has another hash.
func TestPublishedBinaries(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: compiles setup-envtest")
	}
	archive := envtestArchive(t)
	sum := sha512.Sum512(archive)
	index := serveIndex(t, archive, hex.EncodeToString(sum[:]))
	store := filepath.Join(t.TempDir(), "out", "envtest") // a fresh clone has no out

	dir, told := runPublished(t, store, index.URL+"/index.yaml")
	if dir == "" {
		t.Fatalf("nothing came from the index: %s", told)
	}
	for _, program := range published {
		if text, err := os.ReadFile(filepath.Join(dir, program)); err != nil || string(text) != program {
			t.Errorf("%s is %q (%v), want what the archive has", program, text, err)
		}
	}

	index.Close()
	if again, told := runPublished(t, store, index.URL+"/index.yaml"); again != dir {
		t.Errorf("without the index: %q (%s), want %s, which is there", again, told, dir)
	}
	if dir, told := runPublished(t, t.TempDir(), index.URL+"/index.yaml"); dir != "" || !strings.Contains(told,
		"building from source") {
		t.Errorf("an index that does not answer: %q, %q; want no folder, and the reason", dir, told)
	}
	other := serveIndex(t, archive, strings.Repeat("0", 128))
	if dir, told := runPublished(t, t.TempDir(), other.URL+"/index.yaml"); dir != "" || !strings.Contains(told,
		"building from source") {
		t.Errorf("an archive of another hash: %q, %q; want no folder, and the reason", dir, told)
	}
}

// runPublished runs the script and returns the folder that it prints, and what it
// says on standard error.
func runPublished(t *testing.T, store, index string) (dir, told string) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "test", "controlplane", "published"), store)
	cmd.Env = append(os.Environ(), "ENVTEST_INDEX="+index, "NO_PROXY=127.0.0.1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return strings.TrimSpace(string(out)), stderr.String()
}

// serveIndex serves an index of one release of the wanted minor version.
func serveIndex(t *testing.T, archive []byte, hash string) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/archive", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(archive)
	})
	mux.HandleFunc("/index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "releases:\n  v1.36.1:\n    envtest-v1.36.1-%s-%s.tar.gz:\n      hash: %s\n"+
			"      selfLink: %s/archive\n",
			runtime.GOOS, runtime.GOARCH, hash, server.URL)
	})
	return server
}

// envtestArchive packs programs that consist of their own names.
func envtestArchive(t *testing.T) []byte {
	t.Helper()
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	files := tar.NewWriter(zipped)
	for _, program := range published {
		header := &tar.Header{Name: "controller-tools/envtest/" + program, Mode: 0o755, Size: int64(len(program))}
		if err := files.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(program)); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}
