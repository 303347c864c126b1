package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/release/archive"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/release/sbom"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/release/sign"
)

// passwordVariable is where cosign takes the password of a key from, too.
const passwordVariable = "COSIGN_PASSWORD"

// pluginPackage is the program for users' machines.
const pluginPackage = "./cmd/kubectl-mcm"

// assets are the files of a release's page, by name.
type assets map[string][]byte

// withArtifacts writes the whole release: the images first, because components name
// their digests, and checksums, provenance and signatures, which cover the rest, last.
func (r *release) withArtifacts(ctx context.Context, metadata []byte) error {
	signer, err := r.signer()
	if err != nil {
		return err
	}
	created, err := r.created(ctx)
	if err != nil {
		return err
	}
	files := assets{}
	if err := r.releaseNotes(files); err != nil {
		return err
	}
	built, err := r.buildImages(ctx, files, created)
	if err != nil {
		return err
	}
	if err := r.manifests(ctx, metadata); err != nil {
		return err
	}
	for _, add := range []func() error{
		func() error { return r.collect(files) },
		func() error { return r.addChart(files) },
		func() error { return r.addPlugins(ctx, files, created) },
		func() error { return r.vouch(ctx, files, signer) },
		func() error { return r.writeAssets(files) },
	} {
		if err := add(); err != nil {
			return err
		}
	}
	return r.publish(ctx, built, signer)
}

// signer returns nil where nothing is to be signed.
func (r *release) signer() (*sign.Signer, error) {
	if r.key == "" {
		return nil, nil //nolint:nilnil // a release may be unsigned
	}
	return sign.Load(r.key, func() ([]byte, error) { return []byte(os.Getenv(passwordVariable)), nil })
}

// collect adds the files of clusterctl's repository, flat, as a release page has
// them. Those of the native API come along.
func (r *release) collect(files assets) error {
	for _, b := range bundles() {
		folder := filepath.Join(r.out, b.label, r.version)
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(folder, e.Name()))
			if err != nil {
				return err
			}
			if former, taken := files[e.Name()]; taken && !bytes.Equal(former, text) {
				return fmt.Errorf("%s is in the release twice, with different contents", e.Name())
			}
			files[e.Name()] = text
		}
	}
	return nil
}

// addPlugins adds kubectl-mcm for each platform, its SBOMs, and krew's manifest.
func (r *release) addPlugins(ctx context.Context, files assets, created time.Time) error {
	text, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	completion, err := os.ReadFile(filepath.Join(r.root, pluginPackage, pluginCompletion))
	if err != nil {
		return err
	}
	for i, platform := range r.plugins {
		program, err := r.compile(ctx, pluginPackage, platform)
		if err != nil {
			return err
		}
		packed, err := archive.TarGz(pluginEntries(platform, program, text, completion))
		if err != nil {
			return err
		}
		files[pluginArchive(r.version, platform)] = packed
		if i == 0 {
			if err := r.addSBOM(files, "kubectl-mcm", program, created); err != nil {
				return err
			}
		}
	}
	manifest, err := krewManifest(r.version, r.plugins, files)
	files["mcm.yaml"] = manifest
	return err
}

// addSBOM adds what program consists of, in both forms.
func (r *release) addSBOM(files assets, name string, program []byte, created time.Time) error {
	read, err := sbom.Read(bytes.NewReader(program), name, r.version, created)
	if err != nil {
		return err
	}
	if files[name+".cdx.json"], err = read.CycloneDX(); err != nil {
		return err
	}
	files[name+".spdx.json"], err = json.MarshalIndent(read.SPDX(), "", "  ")
	return err
}

// releaseNotes adds the part of CHANGELOG.md about this version.
func (r *release) releaseNotes(files assets) error {
	text, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	heading := "\n## " + r.version
	_, notes, found := strings.Cut("\n"+string(text), heading)
	line, notes, _ := strings.Cut(notes, "\n")
	if !found || line != "" && !strings.HasPrefix(line, " ") {
		return fmt.Errorf("CHANGELOG.md has no section %q; add one", strings.TrimSpace(heading))
	}
	notes, _, _ = strings.Cut("\n"+notes, "\n## ")
	files["release-notes.md"] = []byte(strings.TrimSpace(notes) + "\n")
	return nil
}

// vouch adds what lets users check the rest.
func (r *release) vouch(ctx context.Context, files assets, signer *sign.Signer) error {
	statement, err := r.provenance(ctx, files)
	if err != nil {
		return err
	}
	if signer != nil {
		if statement, err = signer.Statement(statement); err != nil {
			return err
		}
		if files["cosign.pub"], err = signer.PublicKey(); err != nil {
			return err
		}
	}
	files["provenance.intoto.jsonl"] = append(statement, '\n')
	var sums strings.Builder
	for _, name := range files.names() {
		fmt.Fprintf(&sums, "%s  %s\n", files.sha256(name), name)
	}
	files["checksums.txt"] = []byte(sums.String())
	if signer != nil {
		files["checksums.txt.sig"], err = signer.Blob(files["checksums.txt"])
	}
	return err
}

func (a assets) names() []string {
	var names []string
	for name := range a {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (a assets) sha256(name string) string {
	sum := sha256.Sum256(a[name])
	return hex.EncodeToString(sum[:])
}

// writeAssets replaces the folder of this version's page.
func (r *release) writeAssets(files assets) error {
	if err := os.RemoveAll(filepath.Join(r.out, "assets", r.version)); err != nil {
		return err
	}
	for _, name := range files.names() {
		if err := r.write("assets", name, files[name]); err != nil {
			return err
		}
	}
	return nil
}
