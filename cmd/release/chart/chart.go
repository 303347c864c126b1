// Package chart makes the Helm chart from the manifests of a release, so that both
// install the same objects.
package chart

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Name of the chart.
const Name = "capmcm"

// A Bundle is one set of manifests, which the chart installs where a value says so.
type Bundle struct {
	Name      string // of the file in the chart
	Value     string // the part of the values that is about it: native or clusterAPI
	Manifests []byte

	// Namespaces is a list in that part, without which nothing is installed. Empty: none.
	Namespaces string
	// Each has the objects without a namespace installed in each of Namespaces.
	Each bool
	// Namespace becomes the release's; empty: that of the Namespace in Manifests.
	Namespace string
}

// A Release is what the chart is part of.
type Release struct {
	Version                 string // with a leading v
	Repository, Tag, Digest string // of the image; the last two may be empty
}

//go:embed values.yaml
var values string

//go:embed values.schema.json
var schema []byte

//go:embed Chart.yaml
var chart string

// Files returns the files of the chart by name, with its folder.
func Files(r Release, bundles []Bundle) (map[string][]byte, error) {
	files := map[string][]byte{Name + "/values.schema.json": schema}
	for name, text := range map[string]string{"values.yaml": values, "Chart.yaml": chart} {
		filled, err := fill(name, text, r)
		if err != nil {
			return nil, err
		}
		files[Name+"/"+name] = filled
	}
	crds := map[string]*crd{}
	for _, b := range bundles {
		text, err := b.template(crds)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name, err)
		}
		files[Name+"/templates/"+b.Name+".yaml"] = text
	}
	text, err := crdTemplate(crds)
	files[Name+"/templates/crds.yaml"] = text
	return files, err
}

// fill puts what is known at the release into a file. Helm's own braces do not
// occur there.
func fill(name, text string, r Release) ([]byte, error) {
	parsed, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, err
	}
	var filled bytes.Buffer
	err = parsed.Execute(&filled, map[string]string{
		"Repository": r.Repository, "Digest": r.Digest, "Tag": r.Tag, "AppVersion": r.Version,
		"Version": strings.TrimPrefix(r.Version, "v"),
	})
	return filled.Bytes(), err
}

// crd is a definition and the values that ask for it.
type crd struct {
	object *unstructured.Unstructured
	wanted []string
}

// template returns the bundle's objects but for its Namespace, which Helm makes,
// and its CRDs, which are added to crds.
func (b Bundle) template(crds map[string]*crd) ([]byte, error) {
	objects, err := decode(b.Manifests)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	begin, end := b.bounds()
	text.WriteString(begin)
	namespace := b.Namespace
	for _, o := range objects {
		if b.Each && o.GetNamespace() == "" {
			o.SetNamespace(eachNamespace)
		}
		switch o.GetKind() {
		case "Namespace":
			namespace = o.GetName()
		case "CustomResourceDefinition":
			if crds[o.GetName()] == nil {
				crds[o.GetName()] = &crd{object: o}
			}
			c := crds[o.GetName()]
			c.wanted = append(c.wanted, ".Values."+b.Value+".enabled")
		default:
			rendered, err := parameterize(o, namespace, ".Values."+b.Value)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
			}
			text.WriteString("---\n" + rendered)
		}
	}
	text.WriteString(end)
	return text.Bytes(), nil
}

// bounds are the lines before and after the objects, which install them where the
// values ask for them.
func (b Bundle) bounds() (begin, end string) {
	values := ".Values." + b.Value
	begin, end = "{{- if "+values+".enabled }}\n", "{{- end }}\n"
	switch {
	case b.Each:
		return begin + "{{- range $namespace := " + values + "." + b.Namespaces + " }}\n", end + end
	case b.Namespaces != "":
		return "{{- if and " + values + ".enabled " + values + "." + b.Namespaces + " }}\n", end
	}
	return begin, end
}

// crdTemplate returns the CRDs. They outlive the release: with them all machines
// would go.
func crdTemplate(crds map[string]*crd) ([]byte, error) {
	var text bytes.Buffer
	text.WriteString("{{- if .Values.crds.install }}\n")
	for _, name := range slices.Sorted(maps.Keys(crds)) {
		c := crds[name]
		annotations := c.object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["helm.sh/resource-policy"] = "keep"
		c.object.SetAnnotations(annotations)
		rendered, err := marshal(c.object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		wanted := slices.Compact(slices.Sorted(slices.Values(c.wanted)))
		fmt.Fprintf(&text, "{{- if or %s }}\n---\n%s{{- end }}\n", strings.Join(wanted, " "), rendered)
	}
	text.WriteString("{{- end }}\n")
	return text.Bytes(), nil
}

func decode(manifests []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for document := range bytes.SplitSeq(manifests, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
	return objects, nil
}
