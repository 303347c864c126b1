package gcptest

import "strings"

// selection is what a request wants of an answer; an empty one wants all.
type selection map[string]selection

// parseFields reads the parameter fields, e.g. "next,items(name,tags(items))".
func parseFields(text string) selection {
	s, _ := parseSelection(text)
	return s
}

func parseSelection(text string) (s selection, rest string) {
	s = selection{}
	for text != "" && text[0] != ')' {
		end := strings.IndexAny(text, ",()")
		if end < 0 {
			s[text] = nil
			return s, ""
		}
		name := text[:end]
		text = text[end:]
		var inner selection
		if text[0] == '(' {
			inner, text = parseSelection(text[1:])
			text = strings.TrimPrefix(text, ")")
		}
		s[name] = inner
		text = strings.TrimPrefix(text, ",")
	}
	return s, text
}

// project returns what a selection wants of a value. Entries of lists are all treated alike, and so
// are those of the one map by zone, items.
func project(v any, s selection) any {
	if len(s) == 0 {
		return v
	}
	switch v := v.(type) {
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			out = append(out, project(item, s))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			inner, wanted := s[key]
			switch {
			case strings.HasPrefix(key, "zones/") || strings.HasPrefix(key, "regions/"):
				out[key] = project(value, s)
			case wanted:
				out[key] = project(value, inner)
			}
		}
		return out
	}
	return v
}
