package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// imageName is the image in config, always with this tag.
const (
	imageName  = "ghcr.io/capmcm/cluster-api-provider-mcm"
	builtImage = imageName + ":latest"
)

// A bundle is one file of objects, built from a folder of config.
type bundle struct {
	config, label, file string
	provider            string // clusterctl's name of what it is; empty: it is no provider
}

const infrastructure = "infrastructure-mcm"

func bundles() []bundle {
	return []bundle{
		{"infrastructure", infrastructure, "infrastructure-components.yaml", "InfrastructureProvider"},
		{"bootstrap", "bootstrap-mcm", "bootstrap-components.yaml", "BootstrapProvider"},
		{"controlplane", "control-plane-mcm", "control-plane-components.yaml", "ControlPlaneProvider"},
		{"runtime-extension", "runtime-extension-mcm", "runtime-extension-components.yaml", "RuntimeExtensionProvider"},
		{"native-bundle", "native", "native-components.yaml", ""},
		{"native", "native", "native-standalone-components.yaml", ""},
	}
}

// release is one release that is being written.
type release struct {
	root, out      string
	version, image string
}

// bundle writes the components of a bundle, and a provider's metadata.
func (r release) bundle(ctx context.Context, b bundle, metadata []byte) error {
	text, err := kustomize(ctx, r.root, filepath.Join("config", b.config))
	if err != nil {
		return err
	}
	if text, err = r.named(text); err != nil {
		return err
	}
	if b.provider != "" {
		if err := r.write(b.label, "metadata.yaml", metadata); err != nil {
			return err
		}
	}
	return r.write(b.label, b.file, text)
}

// image of a container; clusterctl and the registry's proxies want a tag.
var imageLine = regexp.MustCompile(`(?m)^(\s*(?:- )?image: )(\S+)$`)

// named returns objects with the image of this release.
func (r release) named(text []byte) ([]byte, error) {
	for _, found := range imageLine.FindAllSubmatch(text, -1) {
		if string(found[2]) != builtImage {
			return nil, fmt.Errorf("image %s where %s is expected", found[2], builtImage)
		}
	}
	return imageLine.ReplaceAll(text, []byte("${1}"+r.image)), nil
}

// kustomize builds a folder of the repository at root.
func kustomize(ctx context.Context, root, folder string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=go.tools.mod", "kustomize", "build",
		"--load-restrictor=LoadRestrictionsNone", folder)
	var out, problems bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, &out, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("kustomize build %s: %w\n%s", folder, err, problems.Bytes())
	}
	return out.Bytes(), nil
}

// write writes a file of the release.
func (r release) write(label, name string, text []byte) error {
	dir := filepath.Join(r.out, label, r.version)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a release is for everybody to read
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), text, 0o644) //nolint:gosec // likewise
}
