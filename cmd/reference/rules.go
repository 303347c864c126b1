package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// same matches the comparisons of a value with what it was.
var same = regexp.MustCompile(`\bself((?:\.\w+)*) == oldSelf((?:\.\w+)*)`)

// rules notes which fields the CEL rules of a schema protect from updates.
func (w *walk) rules(path string, s *schema) {
	for _, r := range s.XValidations {
		for _, match := range same.FindAllStringSubmatch(r.Rule, -1) {
			if match[1] != match[2] {
				continue
			}
			of := strings.Trim(path+match[1], ".")
			heading := join(w.kind, path)
			w.limited[of] = fmt.Sprintf("Updates are limited: see the rules of [%s](#%s)", heading, anchor(heading))
			if r.Rule == match[0] {
				w.limited[of] = "**Immutable**"
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		w.rules(join(path, name), &property)
	}
	if element := elements(s); element != nil {
		w.rules(path+"[]", element)
	}
}

// writeRules writes the CEL rules of an object, and those of its fields that have no table of their own.
func (w *walk) writeRules(path string, s *schema) {
	var out strings.Builder
	ruleList(&out, path, s.XValidations)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		w.fieldRules(&out, join(path, name), &property)
	}
	if out.Len() > 0 {
		fmt.Fprintf(&w.out, "Rules:\n\n%s", out.String())
	}
}

// fieldRules are the rules of a value. Those of an object stand below its own table.
func (w *walk) fieldRules(out *strings.Builder, path string, s *schema) {
	if len(s.Properties) > 0 {
		return
	}
	ruleList(out, path, s.XValidations)
	if element := elements(s); element != nil {
		w.fieldRules(out, path+"[]", element)
	}
}

func ruleList(out *strings.Builder, path string, rules apiextensionsv1.ValidationRules) {
	for i := range rules {
		r := &rules[i]
		at := strings.Trim(path+r.FieldPath, ".")
		if at != "" {
			at = "`" + at + "`: "
		}
		message := prose(r.Message)
		if r.MessageExpression != "" {
			message = strings.TrimSpace(message + " `" + r.MessageExpression + "`")
		}
		if strings.Contains(r.Rule, "oldSelf") && (r.OptionalOldSelf == nil || !*r.OptionalOldSelf) {
			message += " (on updates)"
		}
		fmt.Fprintf(out, "- %s%s\n\n  ```cel\n  %s\n  ```\n\n", at, message, strings.ReplaceAll(r.Rule, "\n", "\n  "))
	}
}
