package redact

import (
	"cmp"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// consoleShapes are secrets that programs of a guest write to its console, beside those of shapes.
var consoleShapes = []struct {
	form *regexp.Regexp
	left string
}{
	// What cloud-init has chosen: a line for each user.
	{
		regexp.MustCompile(`(?m)('random' passwords[^\n]*(?:\n[^\n]*)??)((?:\n[^\n:]*[\w.-]+:\S+[ \t]*$)+)`),
		"${1}\n" + mask,
	},
	{regexp.MustCompile(`\$(?:1|2[abxy]?|5|6|7|y|gy)\$[^\s:"']+`), mask}, // a hash of a password
	{regexp.MustCompile(`(--?certificate-key[= ]+)\S+`), "${1}" + mask},
	// What follows a URL's path may be a signature under any name.
	{regexp.MustCompile(`(https?://[^\s?"'\\]+\?)[^\s"'\\]+`), "${1}" + mask},
}

// Console redacts what a guest has written to its console: what looks like a secret, and the words
// of its boot data, as far as they are no ordinary ones. The account's secrets are none of its
// business: see wrap.Redact.
func Console(text string, bootData ...[]byte) string {
	text = masker(wordsOf(bootData)).Replace(text)
	for _, s := range consoleShapes {
		text = s.form.ReplaceAllString(text, s.left)
	}
	text = random.ReplaceAllStringFunc(text, func(word string) string {
		if strings.ContainsFunc(word, unicode.IsUpper) && strings.ContainsFunc(word, unicode.IsLower) &&
			strings.ContainsFunc(word, unicode.IsDigit) {
			return mask
		}
		return word
	})
	return New().Text(text)
}

// random matches what may be a line of a key.
var random = regexp.MustCompile(`[A-Za-z0-9+/]{40,}={0,2}`)

// masker masks words, the longest first.
func masker(words []string) *strings.Replacer {
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(words))
	for _, w := range slices.Compact(words) {
		pairs = append(pairs, w, mask)
	}
	return strings.NewReplacer(pairs...)
}

// wordsOf returns what of boot data may be a secret: what its names say, and words that are no
// ordinary ones, also of what is encoded in it.
func wordsOf(bootData [][]byte) []string {
	var words []string
	for _, data := range bootData {
		text := string(data)
		words = append(words, wordsOfText(text)...)
		for _, word := range encoded.FindAllString(text, -1) {
			content, err := base64.StdEncoding.DecodeString(word)
			if err == nil && utf8.Valid(content) {
				words = append(words, wordsOfText(string(content))...)
			}
		}
	}
	return words
}

// secretValue finds NAME: VALUE and NAME=VALUE.
var secretValue = regexp.MustCompile(`([\w.-]+)["']?[ \t]*[:=][ \t]*["']?([^\s"',}\]]+)`)

// shortestValue is how many bytes the value of a secret name has at least to be looked for.
const shortestValue = 6

func wordsOfText(text string) []string {
	var words []string
	for _, found := range secretValue.FindAllStringSubmatch(text, -1) {
		if isSecret(found[1]) && len(found[2]) >= shortestValue {
			words = append(words, found[2])
		}
	}
	separates := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`<>,;()[]{}=:/@|", r) }
	for word := range strings.FieldsFuncSeq(text, separates) {
		if len(word) >= shortestWord && !ordinary.MatchString(word) {
			words = append(words, word)
		}
	}
	return words
}

// ordinary matches words that name something, such as a unit, a host or an option.
var ordinary = regexp.MustCompile(`^[-.]*[A-Za-z][a-z]*(?:[-._]+[A-Za-z]?[a-z]*)*$`)
