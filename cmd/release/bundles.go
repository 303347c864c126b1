package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// imageName is the manager's image in config. The image of another program has its
// name behind it. All of them have the tag latest there.
const imageName = "ghcr.io/capmcm/cluster-api-provider-mcm"

// A program whose image is part of a release.
type program struct {
	pkg, name string
	suffix    string   // of the image's name, behind that of the manager
	links     []string // other names that it is started by
	ports     []string
	sbom      string // name of its SBOMs
}

// programs are those that have images, the manager first. Gardener starts it by the
// name of MCM.
func programs() []program {
	return []program{
		{
			pkg: "./cmd/manager", name: "cluster-api-provider-mcm", links: []string{"machine-controller-manager"},
			ports: []string{"10258/tcp", "10259/tcp"}, sbom: "manager",
		},
		{pkg: "./cmd/simcloud", name: "simcloud", suffix: "-simcloud", ports: []string{"8080/tcp"}, sbom: "simcloud"},
	}
}

// images are the references of the programs' images, by what config has for them.
func (r *release) images() map[string]string {
	named := map[string]string{}
	for _, p := range programs() {
		named[imageName+p.suffix+":latest"] = r.reference(p)
	}
	return named
}

// reference is the image of a program, with its digest where it has been built.
func (r *release) reference(p program) string {
	reference := r.tagged(p)
	if digest := r.digests[p.name]; digest != "" {
		reference += "@" + digest
	}
	return reference
}

// tagged is the image of a program, by its tag. A digest that the manager's image was
// given with is only the manager's.
func (r *release) tagged(p program) string {
	if p.suffix == "" {
		return r.image
	}
	name, _, _ := strings.Cut(r.image, "@")
	tag := ":" + r.version
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		name, tag = name[:colon], name[colon:]
	}
	return name + p.suffix + tag
}

// A bundle is one file of objects, built from a folder of config.
type bundle struct {
	config, label, file string
	provider            string // clusterctl's name of what it is; empty: it is no provider
}

const (
	infrastructure = "infrastructure-capmcm"
	monitoring     = "monitoring"
	targetCluster  = "target-cluster"
)

func bundles() []bundle {
	return []bundle{
		{"infrastructure", infrastructure, "infrastructure-components.yaml", "InfrastructureProvider"},
		{"bootstrap", "bootstrap-capmcm", "bootstrap-components.yaml", "BootstrapProvider"},
		{"controlplane", "control-plane-capmcm", "control-plane-components.yaml", "ControlPlaneProvider"},
		{"runtime-extension", "runtime-extension-capmcm", "runtime-extension-components.yaml", "RuntimeExtensionProvider"},
		{"self-hosted/cluster", "control-plane-capmcm", "self-hosted-cluster.yaml", ""},
		{"self-hosted/namespace", "control-plane-capmcm", "self-hosted-namespace.yaml", ""},
		{targetCluster, targetCluster, "target-cluster-components.yaml", ""},
		{"native-bundle", "native", "native-components.yaml", ""},
		{"native", "native", "native-standalone-components.yaml", ""},
		{"simcloud", "simcloud", "simcloud-components.yaml", ""},
		{monitoring, monitoring, "monitoring-components.yaml", ""},
	}
}

// release is one release that is being written.
type release struct {
	options
	digests map[string]string // of the images that have been built, by program
}

// bundle writes the components of a bundle, and a provider's metadata.
func (r *release) bundle(ctx context.Context, b bundle, metadata []byte) error {
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

// imageLine is that of a container; clusterctl and the registry's proxies want a tag.
var imageLine = regexp.MustCompile(`(?m)^(\s*(?:- )?image: )(\S+)$`)

// named returns objects with the image of this release.
func (r *release) named(text []byte) ([]byte, error) {
	images := r.images()
	for _, found := range imageLine.FindAllSubmatch(text, -1) {
		if images[string(found[2])] == "" {
			return nil, fmt.Errorf("image %s where one of this project is expected", found[2])
		}
	}
	return imageLine.ReplaceAllFunc(text, func(line []byte) []byte {
		found := imageLine.FindSubmatch(line)
		return append(found[1], images[string(found[2])]...)
	}), nil
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
func (r *release) write(label, name string, text []byte) error {
	dir := filepath.Join(r.out, label, r.version)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a release is for everybody to read
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), text, 0o644) //nolint:gosec // likewise
}
