package cloud

import (
	"cmp"
	"fmt"
)

// Problem returns what of a machine's name the cloud does not take, as the end of a sentence about the
// name; empty if it takes the name. A name that is missing is never taken.
func (l NameLimits) Problem(name string) string {
	n := len(name)
	switch {
	case n == 0 || l.Max > 0 && n > l.Max:
		return fmt.Sprintf("has %d characters and has to have 1 to %d", n, l.Max)
	case Outside(name, l.Chars) != "":
		return fmt.Sprintf("has %q and may only have %s", Outside(name, l.Chars), l.Chars)
	case Outside(name[:1], cmp.Or(l.First, l.Chars)) != "":
		return fmt.Sprintf("begins with %q and has to begin with one of %s", name[:1], cmp.Or(l.First, l.Chars))
	}
	return ""
}

// Outside returns the first character of text that is not in an alphabet such as "a-z0-9_-", in which a
// dash between two characters is all of those between them, and elsewhere itself. It returns nothing if
// all are in it, or if the alphabet is empty, which is any.
func Outside(text, alphabet string) string {
	for _, r := range text {
		if alphabet != "" && !inAlphabet(r, []rune(alphabet)) {
			return string(r)
		}
	}
	return ""
}

func inAlphabet(r rune, all []rune) bool {
	for i := 0; i < len(all); i++ {
		const width = 2 // of the rest of a range
		if i+width < len(all) && all[i+1] == '-' {
			if all[i] <= r && r <= all[i+width] {
				return true
			}
			i += width
			continue
		}
		if r == all[i] {
			return true
		}
	}
	return false
}
