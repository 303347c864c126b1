package main

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	spdxjson "github.com/spdx/tools-golang/json"
	"sigs.k8s.io/yaml"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/release/sign"
)

const tested = "v0.1.0"

// key makes a key pair and returns the file with the private one.
func key(t *testing.T) (string, signature.SignerVerifier) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, cryptoutils.PEMEncode(cryptoutils.PrivateKeyPEMType, der), 0o600); err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.LoadSignerVerifier(private, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return file, verifier
}

// TestArtifacts: what a release has beside its manifests can be pulled, run,
// verified, and made again.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	keyFile, verifier := key(t)
	host := "linux/" + runtime.GOARCH
	o := options{
		root: filepath.Join("..", ".."), out: t.TempDir(), version: tested, artifacts: true, push: true, key: keyFile,
		image:     strings.TrimPrefix(server.URL, "http://") + "/capmcm/manager:" + tested,
		platforms: []string{host}, plugins: []string{host},
	}
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	files := readAll(t, filepath.Join(o.out, "assets", tested))
	index := pulled(t, o.image)
	simcloud := strings.TrimSuffix(o.image, ":"+tested) + "-simcloud:" + tested

	t.Run("Pinned", func(t *testing.T) { t.Parallel(); checkPinned(t, files, o.image, index, simcloud) })
	t.Run("Image", func(t *testing.T) { t.Parallel(); checkImage(t, index) })
	t.Run("Simcloud", func(t *testing.T) { t.Parallel(); checkSimcloud(t, pulled(t, simcloud)) })
	t.Run("Checksums", func(t *testing.T) { t.Parallel(); checkChecksums(t, files, verifier) })
	t.Run("ImageSignature", func(t *testing.T) { t.Parallel(); checkImageSignature(t, o.image, index, verifier) })
	t.Run("Provenance", func(t *testing.T) { t.Parallel(); checkProvenance(t, files, index, verifier) })
	t.Run("Plugin", func(t *testing.T) { t.Parallel(); checkPlugin(t, files, host) })
	t.Run("SBOM", func(t *testing.T) { t.Parallel(); checkSBOM(t, files) })
	t.Run("Again", func(t *testing.T) { t.Parallel(); checkAgain(t, o, files) })
}

func readAll(t *testing.T, folder string) assets {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	files := assets{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(folder, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func pulled(t *testing.T, image string) v1.ImageIndex {
	t.Helper()
	reference, err := name.ParseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(reference, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func digestOf(t *testing.T, index v1.ImageIndex) v1.Hash {
	t.Helper()
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// checkPinned: each bundle runs its image of the release, whatever the tag is moved to.
func checkPinned(t *testing.T, files assets, image string, index v1.ImageIndex, simcloud string) {
	t.Helper()
	for _, b := range bundles() {
		want := "image: " + image + "@" + digestOf(t, index).String() + "\n"
		if b.label == "simcloud" {
			want = "image: " + simcloud + "@" + digestOf(t, pulled(t, simcloud)).String() + "\n"
		}
		runs := strings.Contains(string(files[b.file]), "kind: Deployment\n")
		none := strings.HasPrefix(b.config, "self-hosted/") || b.config == monitoring || b.config == targetCluster
		if runs == none {
			t.Errorf("%s has a Deployment: %v", b.file, runs)
		}
		if runs && !strings.Contains(string(files[b.file]), want) {
			t.Errorf("%s has no %s", b.file, want)
		}
	}
	for _, file := range []string{"metadata.yaml", "cluster-template.yaml", "clusterclass-mcm.yaml"} {
		if len(files[file]) == 0 {
			t.Errorf("clusterctl does not find %s", file)
		}
	}
}

// checkChecksums: each file is listed, and the list is signed.
func checkChecksums(t *testing.T, files assets, verifier signature.Verifier) {
	t.Helper()
	for name := range files {
		if strings.HasPrefix(name, "checksums.txt") {
			continue
		}
		if !strings.Contains(string(files["checksums.txt"]), files.sha256(name)+"  "+name+"\n") {
			t.Errorf("checksums.txt does not have %s", name)
		}
	}
	signed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(files["checksums.txt.sig"])))
	if err != nil {
		t.Fatal(err)
	}
	err = verifier.VerifySignature(bytes.NewReader(signed), bytes.NewReader(files["checksums.txt"]))
	if err != nil {
		t.Errorf("checksums.txt: %v", err)
	}
}

// checkImageSignature: the signature stands where cosign looks, and is of this image.
func checkImageSignature(t *testing.T, image string, index v1.ImageIndex, verifier signature.SignerVerifier) {
	t.Helper()
	reference, err := name.ParseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	digest := digestOf(t, index)
	place := reference.Context().Tag(digest.Algorithm + "-" + digest.Hex + ".sig")
	stored, err := remote.Image(place, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := stored.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	layer, err := stored.LayerByDigest(manifest.Layers[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	content, err := layer.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	payload, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := base64.StdEncoding.DecodeString(manifest.Layers[0].Annotations["dev.cosignproject.cosign/signature"])
	if err != nil {
		t.Fatal(err)
	}
	of, _, err := signature.VerifyImageSignature(verifier, payload, signed)
	if err != nil || of.DigestStr() != digest.String() {
		t.Errorf("signature of %s: %v", of, err)
	}
}

// checkProvenance: the statement is signed and covers the image and the files.
func checkProvenance(t *testing.T, files assets, index v1.ImageIndex, verifier signature.Verifier) {
	t.Helper()
	var payload []byte
	envelope := bytes.NewReader(bytes.TrimSpace(files["provenance.intoto.jsonl"]))
	wrapped := dsse.WrapVerifier(verifier, dsse.WithDecodedPayload(&payload))
	if err := wrapped.VerifySignature(envelope, nil); err != nil {
		t.Fatal(err)
	}
	var s statement
	if err := json.Unmarshal(payload, &s); err != nil {
		t.Fatal(err)
	}
	covered := map[string]string{}
	for _, subject := range s.Subject {
		covered[subject.Name] = subject.Digest["sha256"]
	}
	if !slices.Contains(slices.Collect(maps.Values(covered)), digestOf(t, index).Hex) {
		t.Error("the image is not covered")
	}
	for _, b := range bundles() {
		if covered[b.file] != files.sha256(b.file) {
			t.Errorf("%s is not covered", b.file)
		}
	}
}

// checkPlugin: krew's manifest fits an archive whose program starts.
func checkPlugin(t *testing.T, files assets, platform string) {
	t.Helper()
	var plugin krewPlugin
	if err := yaml.UnmarshalStrict(files["mcm.yaml"], &plugin); err != nil {
		t.Fatal(err)
	}
	packed := pluginArchive(tested, platform)
	if p := plugin.Spec.Platforms[0]; p.SHA256 != files.sha256(packed) || !strings.HasSuffix(p.URI, "/"+packed) {
		t.Errorf("krew would download %s with sum %s", p.URI, p.SHA256)
	}
	uncompressed, err := gzip.NewReader(bytes.NewReader(files[packed]))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	unpack(t, uncompressed, root)
	said, err := exec.CommandContext(t.Context(), filepath.Join(root, pluginBinary(platform)), "--help").CombinedOutput()
	if err != nil {
		t.Errorf("kubectl mcm --help: %v: %s", err, said)
	}
}

// checkSBOM: both forms can be read, and have a library that the manager needs.
func checkSBOM(t *testing.T, files assets) {
	t.Helper()
	const library = "sigs.k8s.io/controller-runtime"
	var bom cdx.BOM
	text := bytes.NewReader(files["manager.cdx.json"])
	if err := cdx.NewBOMDecoder(text, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	named := func(c cdx.Component) bool { return c.Name == library && strings.HasPrefix(c.PackageURL, "pkg:golang/") }
	if !slices.ContainsFunc(*bom.Components, named) {
		t.Errorf("manager.cdx.json does not list %s", library)
	}
	document, err := spdxjson.Read(bytes.NewReader(files["manager.spdx.json"]))
	if err != nil {
		t.Fatal(err)
	}
	if len(document.Packages) != len(*bom.Components)+1 {
		t.Errorf("%d packages in SPDX, %d components in CycloneDX", len(document.Packages), len(*bom.Components))
	}
}

// checkAgain: a second release of the same source has the same bytes. Signatures
// have a random part.
func checkAgain(t *testing.T, o options, first assets) {
	t.Helper()
	o.out, o.push = t.TempDir(), false
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	second := readAll(t, filepath.Join(o.out, "assets", tested))
	signed := []string{"provenance.intoto.jsonl", "checksums.txt", "checksums.txt.sig"}
	for name := range first {
		if !slices.Contains(signed, name) && !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s differs between two builds", name)
		}
	}
	if diff := cmp.Diff(first.names(), second.names()); diff != "" {
		t.Error(diff)
	}
}

func TestReleaseNotes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	text := "# Changelog\n\n## v0.2.0\n\nNew.\n\n## v0.1.0 (2026-12-01)\n\n* First.\n"
	if err := os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{"v0.2.0": "New.\n", "v0.1.0": "* First.\n", "v0.2": "", "v0.3.0": ""} {
		files := assets{}
		err := (&release{options: options{root: root, version: version}}).releaseNotes(files)
		if got := string(files["release-notes.md"]); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
}

func TestKeyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sign.Load(file, func() ([]byte, error) { return nil, nil })
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v does not name %s", err, file)
	}
}
