package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// typeOf is the type of a value in words.
func typeOf(s *schema, of ref) string {
	element := elements(s)
	switch {
	case s.XIntOrString && s.Pattern != "":
		return "quantity"
	case s.XIntOrString:
		return "integer or string"
	case of == ref{"k8s.io/apimachinery/pkg/apis/meta/v1", "Duration"} && s.Type == "string":
		return "duration"
	case s.Type == "array" && element != nil:
		return "list of " + plural(typeOf(element, of))
	case element != nil:
		return "map of " + plural(typeOf(element, of))
	}
	return typeWord(cmp.Or(s.Type, "any"), s.Format)
}

// plural is that of a type in words.
func plural(kind string) string {
	word, rest, _ := strings.Cut(kind, " ")
	if rest != "" {
		rest = " " + rest
	}
	switch word {
	case "quantity":
		return "quantities"
	case "any":
		return "any values"
	case "list", "map", "integer", "string", "number", "boolean", "object", "time", "duration":
		return word + "s" + rest
	}
	return kind
}

func typeWord(kind, format string) string {
	switch {
	case format == "date-time":
		return "time"
	case format != "":
		return kind + " (" + format + ")"
	}
	return kind
}

// constraints are what a value has to fulfil, one each. CEL rules are not among them.
func constraints(s *schema, values []constant) []string {
	found := slices.Concat(
		choices(s, values),
		bounds("Length", s.MinLength, s.MaxLength),
		bounds("Items", s.MinItems, s.MaxItems),
		bounds("Entries", s.MinProperties, s.MaxProperties),
		numbers(s),
	)
	if s.Pattern != "" {
		found = append(found, "Pattern: "+code(s.Pattern))
	}
	if s.UniqueItems {
		found = append(found, "Items are unique")
	}
	if s.Nullable {
		found = append(found, "May be null")
	}
	return append(found, structure(s)...)
}

// choices are the values of an enum, or those that the controllers know where the schema admits others.
func choices(s *schema, values []constant) []string {
	title, all := "One of", s.Enum
	if len(all) == 0 && s.Type == "string" {
		title = "Known values:"
		for _, v := range values {
			all = append(all, apiextensionsv1.JSON{Raw: []byte(v.value)})
		}
	}
	if len(all) == 0 {
		return nil
	}
	separator := ", "
	var found []string
	for _, v := range all {
		text := strings.Trim(string(v.Raw), `"`)
		i := slices.IndexFunc(values, func(c constant) bool { return c.value == text })
		text = code(text)
		if i >= 0 && values[i].meaning != "" {
			text, separator = text+": "+prose(values[i].meaning), "; "
		}
		found = append(found, text)
	}
	return []string{title + " " + strings.Join(found, separator)}
}

func bounds(what string, least, most *int64) []string {
	switch {
	case least != nil && most != nil && *least == *most:
		return []string{fmt.Sprintf("%s: %d", what, *least)}
	case least != nil && most != nil:
		return []string{fmt.Sprintf("%s: %d to %d", what, *least, *most)}
	case least != nil:
		return []string{fmt.Sprintf("%s: at least %d", what, *least)}
	case most != nil:
		return []string{fmt.Sprintf("%s: at most %d", what, *most)}
	}
	return nil
}

func numbers(s *schema) []string {
	var found []string
	add := func(limit *float64, exclusive bool, including, excluding string) {
		switch {
		case limit == nil:
		case exclusive:
			found = append(found, excluding+" "+number(*limit))
		default:
			found = append(found, including+" "+number(*limit))
		}
	}
	add(s.Minimum, s.ExclusiveMinimum, "At least", "More than")
	add(s.Maximum, s.ExclusiveMaximum, "At most", "Less than")
	add(s.MultipleOf, false, "A multiple of", "")
	return found
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// structure is how the API server merges and prunes a value.
func structure(s *schema) []string {
	var found []string
	if s.XListType != nil {
		kind := *s.XListType
		if kind == "map" {
			kind += " by " + strings.Join(codes(s.XListMapKeys), ", ")
		}
		found = append(found, "List type: "+kind)
	}
	if s.XMapType != nil {
		found = append(found, "Map type: "+*s.XMapType)
	}
	if s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields {
		found = append(found, "Keeps fields that are not listed here")
	}
	return found
}
