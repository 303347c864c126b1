package main

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const gadgets = `
spec:
  group: machine.example.com
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget, shortNames: [gd]}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    deprecated: true
    subresources: {scale: {specReplicasPath: .spec.n, statusReplicasPath: .status.n, labelSelectorPath: .status.l}}
    schema:
      openAPIV3Schema:
        description: A Gadget is a|b or <c>.
        type: object
        properties:
          color:
            type: string
            enum: [red, blue]
            x-kubernetes-validations: [{rule: self == oldSelf, message: keep the color}]
          share: {type: number, minimum: 0, exclusiveMinimum: true, maximum: 0.5, multipleOf: 0.25}
          silent: {type: boolean}
          sizes: {type: array, uniqueItems: true, nullable: true, items: {type: integer, format: int32, maximum: 9}}
          weight:
            x-kubernetes-int-or-string: true
            pattern: ^a|b$
          wishes:
            type: object
            additionalProperties:
              type: object
              properties:
                when: {type: string, format: date-time}
`

// TestPage: a page has what schemas can say, and nothing where they say nothing.
func TestPage(t *testing.T) {
	t.Parallel()
	var c apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict([]byte(gadgets), &c); err != nil {
		t.Fatal(err)
	}
	values := map[ref][]constant{{"api/machine/v1", "Color"}: {{"red", "it is hot"}}}
	fields := map[ref][]field{{"api/machine/v1", "Gadget"}: {
		{"", ref{"api/machine/v1", "Inline"}}, {"color", ref{"api/machine/v1", "Color"}},
	}, {"api/machine/v1", "Inline"}: {{"wishes", ref{}}}}
	got, err := section(&c, &types{fields: fields, values: values})
	if err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[string]string{
		"characters of Markdown are escaped":    `A Gadget is a\|b or \<c>.`,
		"a version that is deprecated":          "`machine.example.com/v1` (served, stored, deprecated)",
		"short names":                           "| Short names | `gd` |",
		"the scope":                             "| Scope | Cluster |",
		"the paths of scale":                    "`scale` (`.spec.n`, `.status.n`, `.status.l`)",
		"a kind without columns":                "prints name and age",
		"a rule of a value makes it immutable":  "| `color` | string | **Immutable**<br>One of `red`: it is hot; `blue` |",
		"its rule has a message and its moment": "- `color`: keep the color (on updates)\n\n  ```cel\n  self == oldSelf\n",
		"limits of numbers":                     "| `share` | number | More than 0<br>At most 0.5<br>A multiple of 0.25 |",
		"no description, nothing invented":      "| `silent` | boolean |  |",
		"elements without a table":              "integers (int32) | Items are unique<br>May be null<br>Each: at most 9 |",
		"a pipe in a pattern":                   "| `weight` | quantity | Pattern: `^a\\|b$` |",
		"values of a map have a table":          "| [map of objects](#gadgetwishes) |",
		"which is theirs":                       "### Gadget.wishes[]\n\n| field | type | meaning |\n|---|---|---|\n| `when`",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s: no %q in\n%s", reason, want, got)
		}
	}
	if strings.Index(got, "| `wishes`") > strings.Index(got, "| `color`") ||
		strings.Index(got, "| `color`") > strings.Index(got, "| `share`") {
		t.Errorf("fields are not in the order of the Go type, then of the alphabet:\n%s", got)
	}
}

// TestAnchorsAreUnique: two tables of one anchor would be linked to as one.
func TestAnchorsAreUnique(t *testing.T) {
	t.Parallel()
	var c apiextensionsv1.CustomResourceDefinition
	const clash = `
spec:
  group: g
  names: {kind: K}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          ab: {type: object, properties: {c: {type: object, properties: {x: {type: string}}}}}
          a: {type: object, properties: {bc: {type: object, properties: {x: {type: string}}}}}
`
	if err := yaml.Unmarshal([]byte(clash), &c); err != nil {
		t.Fatal(err)
	}
	if _, err := section(&c, &types{}); err == nil || !strings.Contains(err.Error(), "anchor kabc") {
		t.Errorf("error %v, want the anchor that two tables have", err)
	}
}
