package main

import (
	"archive/tar"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// checkImage unpacks the image and starts the manager from it, by both names.
func checkImage(t *testing.T, index v1.ImageIndex) {
	t.Helper()
	config, root := unpacked(t, index)
	if config.User != "65532:65532" || config.WorkingDir != "/" {
		t.Errorf("runs as %q in %q", config.User, config.WorkingDir)
	}
	for _, program := range []string{config.Entrypoint[0], "machine-controller-manager"} {
		said, err := exec.CommandContext(t.Context(), filepath.Join(root, program), "--version").CombinedOutput()
		if err != nil || !strings.Contains(string(said), tested) {
			t.Errorf("%s --version: %v: %s", program, err, said)
		}
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Errorf("no certificates: %v", err)
	}
}

// checkSimcloud unpacks the image of the simulated cloud and starts it.
func checkSimcloud(t *testing.T, index v1.ImageIndex) {
	t.Helper()
	config, root := unpacked(t, index)
	said, err := exec.CommandContext(t.Context(), filepath.Join(root, config.Entrypoint[0]), "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(said), "-in-cluster") {
		t.Errorf("%s --help: %v: %s", config.Entrypoint[0], err, said)
	}
}

// unpacked returns the configuration of an image for this platform, and the folder
// with its files.
func unpacked(t *testing.T, index v1.ImageIndex) (v1.Config, string) {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	unpack(t, mutate.Extract(image), root)
	return config.Config, root
}

// unpack writes the files of a tar stream below root.
func unpack(t *testing.T, from io.ReadCloser, root string) {
	t.Helper()
	defer from.Close()
	for in := tar.NewReader(from); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(root, header.Name)
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(file, 0o750)
		case tar.TypeSymlink:
			err = os.Symlink(header.Linkname, file)
		default:
			var data []byte
			if data, err = io.ReadAll(in); err == nil {
				err = os.WriteFile(file, data, header.FileInfo().Mode())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
