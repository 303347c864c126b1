package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/release/image"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/release/sign"
)

// buildImages builds the image of each program, and notes its digest.
func (r *release) buildImages(ctx context.Context, files assets, created time.Time) ([]v1.ImageIndex, error) {
	r.digests = map[string]string{}
	var built []v1.ImageIndex
	for _, p := range programs() {
		index, err := r.buildImage(ctx, p, files, created)
		if err != nil {
			return nil, err
		}
		digest, err := index.Digest()
		if err != nil {
			return nil, err
		}
		r.digests[p.name] = digest.String()
		built = append(built, index)
	}
	return built, nil
}

// buildImage builds a program for each platform into one image, and adds its SBOMs.
func (r *release) buildImage(ctx context.Context, p program, files assets, created time.Time) (v1.ImageIndex, error) {
	var images []v1.Image
	for _, platform := range r.platforms {
		compiled, err := r.compile(ctx, p.pkg, platform)
		if err != nil {
			return nil, err
		}
		if len(images) == 0 {
			if err := r.addSBOM(files, p.sbom, compiled, created); err != nil {
				return nil, err
			}
		}
		system, architecture, _ := strings.Cut(platform, "/")
		made, err := image.New(image.Build{
			OS: system, Architecture: architecture, Name: p.name, Program: compiled, Links: p.links, Ports: p.ports,
			Created: created, Labels: r.labels(ctx, p),
		})
		if err != nil {
			return nil, err
		}
		images = append(images, made)
	}
	return image.Index(images...)
}

// labels are what registries show of an image.
func (r *release) labels(ctx context.Context, p program) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.source":   repository,
		"org.opencontainers.image.title":    p.name,
		"org.opencontainers.image.version":  r.version,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	if commit := r.commit(ctx); commit != "" {
		labels["org.opencontainers.image.revision"] = commit
	}
	return labels
}

// publish writes the images as OCI layouts, and pushes them with their signatures if
// that is asked for. The components exist before their images do: whoever sees
// the tag can install it.
func (r *release) publish(ctx context.Context, built []v1.ImageIndex, signer *sign.Signer) error {
	for i, p := range programs() {
		folder := filepath.Join(r.out, "image"+p.suffix, r.version)
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
		if _, err := layout.Write(folder, built[i]); err != nil {
			return fmt.Errorf("write the image to %s: %w", folder, err)
		}
		if !r.push {
			continue
		}
		if err := r.pushImage(ctx, p, built[i], signer); err != nil {
			return err
		}
	}
	return nil
}

// pushImage pushes the image of a program, behind its signature if there is a signer.
func (r *release) pushImage(ctx context.Context, p program, built v1.ImageIndex, signer *sign.Signer) error {
	tag := r.tagged(p)
	reference, err := name.ParseReference(tag)
	if err != nil {
		return err
	}
	remotely := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if signer != nil {
		digest := reference.Context().Digest(r.digests[p.name])
		place, signature, err := signer.Image(digest)
		if err != nil {
			return err
		}
		if err := remote.Write(place, signature, remotely...); err != nil {
			return fmt.Errorf("push the signature: %w", err)
		}
	}
	if err := remote.WriteIndex(reference, built, remotely...); err != nil {
		return fmt.Errorf("push %s: %w", tag, err)
	}
	return nil
}
