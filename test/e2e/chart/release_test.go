package chart

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

const version = "v0.1.0"

// A release is what the tests install.
type release struct {
	chart string // the packed chart
	root  string // the image's file system
}

// released makes a release for this machine, and unpacks its image.
func released(t *testing.T) release {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	out, host := t.TempDir(), "linux/"+runtime.GOARCH
	cmd := exec.CommandContext(t.Context(), "go", "run", "./cmd/release", "-artifacts", "-out", out, "-version", version,
		"-platforms", host, "-plugin-platforms", host)
	cmd.Dir = root
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make the release: %v\n%s", err, said)
	}
	return release{
		chart: filepath.Join(out, "assets", version, "capmcm-0.1.0.tgz"),
		root:  unpacked(t, filepath.Join(out, "image", version)),
	}
}

// unpacked returns a folder with the file system of the image in an OCI layout.
func unpacked(t *testing.T, folder string) string {
	t.Helper()
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	files := mutate.Extract(image)
	defer files.Close()
	for in := tar.NewReader(files); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return root
		}
		if err == nil {
			err = write(in, header, filepath.Join(root, header.Name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func write(from io.Reader, header *tar.Header, file string) error {
	switch header.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(file, 0o750)
	case tar.TypeSymlink:
		return os.Symlink(header.Linkname, file)
	}
	data, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, header.FileInfo().Mode())
}
