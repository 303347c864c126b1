// Command release writes what a release consists of: a local repository of
// clusterctl, <provider>/<version>/ with components, metadata and templates, and
// beside it the native API, which is no provider of clusterctl. With -artifacts
// also everything else: the image, kubectl-mcm, SBOMs, checksums, provenance.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

// options are the flags.
type options struct {
	root            string // of the repository
	out             string
	version, image  string
	artifacts, push bool
	platforms       []string // of the image
	plugins         []string // platforms of kubectl-mcm
	key             string
}

func main() {
	o := options{root: "."}
	flag.StringVar(&o.out, "out", "out/release", "folder to write to")
	flag.StringVar(&o.version, "version", "", "version of the release, v<major>.<minor>.<patch>; "+
		"empty means the first of the newest series in metadata.yaml")
	flag.StringVar(&o.image, "image", "", "image of the manager; empty means "+imageName+" with the version as its tag")
	flag.BoolVar(&o.artifacts, "artifacts", false, "also build the image, to whose digest the components are pinned, "+
		"kubectl-mcm, SBOMs, checksums and provenance")
	flag.BoolVar(&o.push, "push", false, "with -artifacts: push the image to the registry that its name has")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64", "with -artifacts: platforms of the image")
	plugins := flag.String("plugin-platforms",
		"linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64",
		"with -artifacts: platforms of kubectl-mcm")
	flag.StringVar(&o.key, "key", "", "with -artifacts: file with the private key to sign with, as cosign makes it; "+
		"the password of an encrypted key is read from "+passwordVariable+"; empty means that nothing is signed")
	flag.Parse()
	o.platforms, o.plugins = strings.Split(*platforms, ","), strings.Split(*plugins, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run writes a release of the repository at o.root. The folder of that version is
// replaced; other versions stay.
func run(ctx context.Context, o options) error {
	metadata, err := os.ReadFile(filepath.Join(o.root, "metadata.yaml"))
	if err != nil {
		return err
	}
	if o.version, err = choose(metadata, o.version); err != nil {
		return err
	}
	if o.image == "" {
		o.image = imageName + ":" + o.version
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	r := &release{options: o}
	if o.artifacts && strings.Contains(o.image, "@") {
		return fmt.Errorf("-image %s: -artifacts builds the image and adds its digest; leave out what is behind the @",
			o.image)
	}
	if o.artifacts {
		return r.withArtifacts(ctx, metadata)
	}
	return r.manifests(ctx, metadata)
}

// manifests writes what clusterctl, kubectl and Helm read.
func (r *release) manifests(ctx context.Context, metadata []byte) error {
	for _, b := range bundles() {
		if err := os.RemoveAll(filepath.Join(r.out, b.label, r.version)); err != nil {
			return err
		}
	}
	for _, b := range bundles() {
		if err := r.bundle(ctx, b, metadata); err != nil {
			return fmt.Errorf("%s: %w", b.file, err)
		}
	}
	if err := r.templates(); err != nil {
		return err
	}
	if err := r.chart(); err != nil {
		return err
	}
	return r.configuration()
}
