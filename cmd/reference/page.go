package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// page is the reference of the kinds of a group.
func page(group string, crds []*apiextensionsv1.CustomResourceDefinition, t *types) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, `# %s: reference

<!-- Made by cmd/reference from config/crd and api; change it there and run make generate. -->

A field that is not marked as required may be left out. The kinds:
`, group)
	var kinds []string
	for _, c := range crds {
		kinds = append(kinds, fmt.Sprintf("[%s](#%s)", c.Spec.Names.Kind, anchor(c.Spec.Names.Kind)))
	}
	fmt.Fprintf(&out, "%s.\n", strings.Join(kinds, ", "))
	for _, c := range crds {
		text, err := section(c, t)
		if err != nil {
			return "", fmt.Errorf("describe %s: %w", c.Name, err)
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// section is the reference of a kind.
func section(c *apiextensionsv1.CustomResourceDefinition, t *types) (string, error) {
	kind, group := c.Spec.Names.Kind, c.Spec.Group
	if len(c.Spec.Versions) != 1 || c.Spec.Versions[0].Schema == nil {
		return "", errors.New("it has not one version with a schema: a section is of one; write the others, too")
	}
	v := &c.Spec.Versions[0]
	root := v.Schema.OpenAPIV3Schema
	w := &walk{types: t, group: group, version: v.Name, kind: kind, limited: map[string]string{}}
	w.rules("", root)
	if err := w.object("", root, ref{"api/" + folderOf(group) + "/" + v.Name, kind}); err != nil {
		return "", err
	}
	fields := strings.TrimRight(w.out.String(), "\n") + "\n"
	return fmt.Sprintf(`
## %[1]s

%[2]s [%[1]s](../%[3]s) explains how it is used, with its conditions and Events.

%[4]s
%[5]s
%[6]s`, kind, prose(root.Description), explanation(kind), overview(c, v), columns(v), fields), nil
}

// A walk writes the objects of a schema, each with a table of its fields.
type walk struct {
	types                *types
	group, version, kind string
	limited              map[string]string // what rules say about updates, by path
	out                  strings.Builder
	headings             []string
}

// A child is an object below another one, with a table of its own.
type child struct {
	path   string
	schema *schema
	of     ref
}

// object writes the table of an object, then those of the objects in it.
func (w *walk) object(path string, s *schema, of ref) error {
	heading := join(w.kind, path)
	if slices.Contains(w.headings, anchor(heading)) {
		return fmt.Errorf("two objects have the anchor %s", anchor(heading))
	}
	w.headings = append(w.headings, anchor(heading))
	if path != "" {
		fmt.Fprintf(&w.out, "### %s\n\n", heading)
		if s.Description != "" {
			fmt.Fprintf(&w.out, "%s\n\n", prose(s.Description))
		}
	}
	w.out.WriteString("| field | type | meaning |\n|---|---|---|\n")
	var children []child
	for _, f := range w.order(s, of) {
		below := w.row(path, s, f)
		if below != nil {
			children = append(children, *below)
		}
	}
	w.out.WriteString("\n")
	w.writeRules(path, s)
	for _, c := range children {
		if err := w.object(c.path, c.schema, c.of); err != nil {
			return err
		}
	}
	return nil
}

// order has the fields of an object, in the order of the Go type, then of the alphabet.
func (w *walk) order(s *schema, of ref) []field {
	var found []field
	if s.Properties["apiVersion"].Type != "" && of.name == w.kind {
		found = []field{{name: "apiVersion"}, {name: "kind"}}
	}
	has := func(name string) bool {
		return slices.ContainsFunc(found, func(f field) bool { return f.name == name })
	}
	for _, f := range w.types.members(of) {
		if _, ok := s.Properties[f.name]; ok && !has(f.name) {
			found = append(found, f)
		}
	}
	var rest []field
	for name := range s.Properties {
		if !has(name) {
			rest = append(rest, field{name: name})
		}
	}
	slices.SortFunc(rest, func(a, b field) int { return cmp.Compare(a.name, b.name) })
	return append(found, rest...)
}

// row writes the line of a field, and returns the object in it, if it has one.
func (w *walk) row(path string, parent *schema, f field) *child {
	s := parent.Properties[f.name]
	full := join(path, f.name)
	below := inner(full, &s, f.of)
	kind := typeOf(&s, f.of)
	if below != nil {
		kind = fmt.Sprintf("[%s](#%s)", kind, anchor(join(w.kind, below.path)))
	}
	lines := []string{prose(w.describe(path, f.name, s.Description))}
	if slices.Contains(parent.Required, f.name) {
		lines = append(lines, "**Required**")
	}
	if s.Default != nil {
		lines = append(lines, "Default: "+code(string(s.Default.Raw)))
	}
	if limit := w.limited[full]; limit != "" {
		lines = append(lines, limit)
	}
	lines = append(lines, constraints(&s, w.types.values[f.of])...)
	lines = append(lines, w.ofElements(&s, f.of)...)
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == "" })
	fmt.Fprintf(&w.out, "| `%s` | %s | %s |\n", f.name, kind, strings.Join(lines, "<br>"))
	return below
}

// describe is the description of a field. What every object has is not explained again in each kind.
func (w *walk) describe(path, name, description string) string {
	switch {
	case path != "":
	case name == "apiVersion":
		return "`" + w.group + "/" + w.version + "`"
	case name == "kind":
		return "`" + w.kind + "`"
	case name == "metadata" && description == "":
		return "Metadata of the object: name, namespace, labels, annotations and others that every object has."
	}
	return description
}

// ofElements are constraints of the elements of a list or map that have no table of their own.
func (w *walk) ofElements(s *schema, of ref) []string {
	element := elements(s)
	if element == nil || len(element.Properties) > 0 {
		return nil
	}
	var found []string
	for _, c := range constraints(element, w.types.values[of]) {
		found = append(found, "Each: "+strings.ToLower(c[:1])+c[1:])
	}
	return found
}

// elements is the schema of the elements of a list or map; nil of other values.
func elements(s *schema) *schema {
	switch {
	case s.Items != nil:
		return s.Items.Schema
	case s.AdditionalProperties != nil:
		return s.AdditionalProperties.Schema
	}
	return nil
}

// inner is the object that a value is, or that its elements are.
func inner(path string, s *schema, of ref) *child {
	if element := elements(s); element != nil {
		return inner(path+"[]", element, of)
	}
	if len(s.Properties) == 0 {
		return nil
	}
	return &child{path, s, of}
}

func join(path, name string) string { return strings.Trim(path+"."+name, ".") }
