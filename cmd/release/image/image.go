// Package image makes container images of single programs without a container runtime.
package image

import (
	"bytes"
	"encoding/pem"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/release/archive"
)

// nonRoot is the user that the manager runs as.
const nonRoot = 65532

// A Build is a program for one platform.
type Build struct {
	OS, Architecture string
	Name             string   // of the program's file
	Program          []byte   // statically linked
	Links            []string // other names that it is started by
	Ports            []string // that it listens on, as 8080/tcp
	Labels           map[string]string
	Created          time.Time
}

// New returns the image of b: certificates, users and folders that a static
// program expects, and the program. Equal builds make equal images.
func New(b Build) (v1.Image, error) {
	base, err := layer(system())
	if err != nil {
		return nil, err
	}
	entries := []archive.Entry{{Name: b.Name, Mode: 0o755, Data: b.Program}}
	for _, link := range b.Links {
		entries = append(entries, archive.Entry{Name: link, Mode: 0o777, Link: b.Name})
	}
	program, err := layer(entries)
	if err != nil {
		return nil, err
	}
	made := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if made, err = mutate.AppendLayers(made, base, program); err != nil {
		return nil, err
	}
	config, err := made.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.OS, b.Architecture, v1.Time{Time: b.Created.UTC()}
	config.History = nil
	config.Config = v1.Config{
		Entrypoint: []string{"/" + b.Name}, User: "65532:65532", WorkingDir: "/", Labels: b.Labels,
		Env:          []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		ExposedPorts: map[string]struct{}{},
	}
	for _, port := range b.Ports {
		config.Config.ExposedPorts[port] = struct{}{}
	}
	return mutate.ConfigFile(made, config)
}

// Index returns one image for several platforms.
func Index(images ...v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		config, err := i.ConfigFile()
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: i, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture}},
		})
	}
	return index, nil
}

// layer returns entries as a layer of an image.
func layer(entries []archive.Entry) (v1.Layer, error) {
	var buffer bytes.Buffer
	if err := archive.Tar(&buffer, entries); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// system is what the manager needs beside itself.
func system() []archive.Entry {
	return []archive.Entry{
		{Name: "etc/", Mode: 0o755},
		{Name: "etc/group", Mode: 0o644, Data: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{Name: "etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/:/sbin/nologin\n" +
			"nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")},
		{Name: "etc/ssl/", Mode: 0o755},
		{Name: "etc/ssl/certs/", Mode: 0o755},
		{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Data: certificates()},
		{Name: "home/", Mode: 0o755},
		{Name: "home/nonroot/", Mode: 0o700, UID: nonRoot},
		{Name: "tmp/", Mode: 0o1777},
	}
}

// certificates are Mozilla's roots. Those that are trusted under conditions only
// are left out, since a file cannot state the conditions.
func certificates() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return text.Bytes()
}
