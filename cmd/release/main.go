// Command release writes what a release consists of, in the layout of a local
// repository of clusterctl: <provider>/<version>/ with components, metadata and
// templates, and beside them the native door, which is no provider of clusterctl.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	out := flag.String("out", "out/release", "folder to write to")
	version := flag.String("version", "", "version of the release, v<major>.<minor>.<patch>; empty means the first of "+
		"the newest series in metadata.yaml")
	image := flag.String("image", "", "image of the manager; empty means "+imageName+" with the version as its tag")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, ".", *out, *version, *image)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run writes a release of the repository at root. The folder of that version is
// replaced; other versions stay.
func run(ctx context.Context, root, out, version, image string) error {
	metadata, err := os.ReadFile(filepath.Join(root, "metadata.yaml"))
	if err != nil {
		return err
	}
	if version, err = choose(metadata, version); err != nil {
		return err
	}
	if image == "" {
		image = imageName + ":" + version
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	r := release{root: root, out: out, version: version, image: image}
	for _, b := range bundles() {
		if err := r.bundle(ctx, b, metadata); err != nil {
			return fmt.Errorf("%s: %w", b.file, err)
		}
	}
	if err := r.templates(); err != nil {
		return err
	}
	return r.configuration()
}
