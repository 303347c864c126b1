package house

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path"
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// TestManifestsDecodeStrictly: what users apply has no unknown field, no field
// twice and no unknown kind.
func TestManifestsDecodeStrictly(t *testing.T) {
	t.Parallel()
	decoder := strict(t)
	for _, name := range files(t, under("config", isYAML)) {
		reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(read(t, name))))
		for i := 1; ; i++ {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
			if len(bytes.TrimSpace(comments(document))) == 0 || elsewhere.Match(document) {
				continue
			}
			if _, _, err := decoder.Decode(document, nil, nil); err != nil {
				t.Errorf("%s, document %d: %v", name, i, err)
			}
		}
	}
}

// elsewhere are kinds that have no types here: the CRDs of cert-manager judge its own in
// test/e2e, the engine of Prometheus the rules in test/monitoring, and the generator its specs
// in userdata.
var elsewhere = regexp.MustCompile(
	`(?m)^apiVersion: (cert-manager\.io|monitoring\.coreos\.com|userdata\.mcm\.cluster\.x-k8s\.io)/`)

// isYAML leaves out what is for kustomize: its own file, and patches, which are
// parts of objects.
func isYAML(name string) bool {
	base := path.Base(name)
	return strings.HasSuffix(base, ".yaml") && base != "kustomization.yaml" && !strings.Contains(name, "/patches/")
}

func strict(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, machinev1.AddToScheme, infrav1.AddToScheme,
		runtimev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

// comments returns a document without its comment lines and separators.
func comments(document []byte) []byte {
	var kept [][]byte
	for line := range bytes.SplitSeq(document, []byte("\n")) {
		if !bytes.HasPrefix(line, []byte("#")) && !bytes.HasPrefix(line, []byte("---")) {
			kept = append(kept, line)
		}
	}
	return bytes.Join(kept, []byte("\n"))
}
