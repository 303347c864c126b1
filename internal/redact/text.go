package redact

import (
	"encoding/base64"
	"regexp"
	"strings"
	"unicode/utf8"
)

// shapes are secrets that are recognised by their form, and what is left of them.
var shapes = []struct {
	form *regexp.Regexp
	left string
}{
	// Keys and certificates, also where a log begins or ends within one.
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\z)`), mask},
	{regexp.MustCompile(`\A[A-Za-z0-9+/=\s\\]*-----END [A-Z0-9 ]+-----`), mask},
	{regexp.MustCompile(`#cloud-config[^\n]*(?:\n(?:[ \t-][^\n]*|[a-z_]+:[^\n]*)?)*`), mask + "\n"},
	{regexp.MustCompile(`(?i)(authorization\\?["']?[ \t]*[:=][ \t]*\\?["']?)[^\r\n"'\\]+`), "${1}" + mask},
	{regexp.MustCompile(`(?i)\b(bearer)[ \t]+[\w.~+/=-]{8,}`), "${1} " + mask},
	{regexp.MustCompile(`\beyJ[\w-]{5,}\.[\w-]+(?:\.[\w-]*)?`), mask},       // a JSON web token
	{regexp.MustCompile(`\b([a-z0-9]{6})\.[a-z0-9]{16}\b`), "${1}." + mask}, // a bootstrap token
	{regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`), mask},             // an ID of AWS
	{regexp.MustCompile(`(://)[^/\s:@"']*:[^/\s@"']+@`), "${1}" + mask + "@"},
}

// Where text names what follows: NAME: VALUE to the end of a line, --NAME VALUE, and NAME=VALUE with
// values as logs, YAML and JSON have them.
var (
	rest     = regexp.MustCompile(`(?m)^([ \t]*(?:- )?)([\w.-]+)([ \t]*:[ \t]+)[^\s|>"'{\[<][^\n]*$`)
	argument = regexp.MustCompile(`()(--?[A-Za-z][\w-]*)([ \t]+)[^\s-]\S*`)
	named    = regexp.MustCompile(`([\w.-]+)\\?["']?[ \t]*[:=][ \t]*`)
	quoted   = regexp.MustCompile(`\A(?:` + strings.Join([]string{
		`<\n(?:[ \t]+[^\n]*\n?)*`, `[|>][-+0-9]*[ \t]*(?:\n(?:[ \t]+[^\n]*)?)*`, `\\"(?:[^\\"]|\\[^"])*\\"`,
		`"(?:[^"\\]|\\.)*"?`, `'[^']*'?`, `\[[^\]\n]*\]?`, `\{[^}\n]*\}?`, `[^\s,;&"'}\]]+`,
	}, "|") + `)`)
	encoded = regexp.MustCompile(`[A-Za-z0-9+/_-]{24,}={0,2}`)
)

// Text redacts text without fields, such as a log.
func (r Redactor) Text(text string) string {
	for _, s := range shapes {
		text = s.form.ReplaceAllString(text, s.left)
	}
	for _, form := range []*regexp.Regexp{rest, argument} {
		text = form.ReplaceAllStringFunc(text, func(found string) string {
			if part := form.FindStringSubmatch(found); isSecret(part[2]) {
				return part[1] + part[2] + part[3] + mask
			}
			return found
		})
	}
	text = values(text)
	if joined := strings.Join(strings.Fields(text), ""); len(joined) < len(text) && encoded.FindString(joined) == joined {
		return r.decoded(joined, text)
	}
	return encoded.ReplaceAllStringFunc(text, func(word string) string { return r.decoded(word, word) })
}

// values redacts the values of names that look like a secret.
func values(text string) string {
	var out strings.Builder
	for {
		at := named.FindStringSubmatchIndex(text)
		if at == nil {
			out.WriteString(text)
			return out.String()
		}
		out.WriteString(text[:at[1]])
		secret := isSecret(text[at[2]:at[3]])
		if text = text[at[1]:]; secret {
			value := quoted.FindString(text)
			out.WriteString(masked(value))
			text = text[len(value):]
		}
	}
}

// masked is a mask in the quotes of a value; an empty value stays.
func masked(value string) string {
	if strings.Trim(value, `\"'{}[] `) == "" {
		return value
	}
	quotes := value[:len(value)-len(strings.TrimLeft(value, `\"'`))]
	return quotes + mask + quotes
}

// decoded is instead, or a mask if the base64 of word has a secret, boot data, or something compressed.
func (r Redactor) decoded(word, instead string) string {
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(word, "="))
	content, err := base64.RawStdEncoding.DecodeString(plain)
	text := string(content)
	switch {
	case err != nil:
	case strings.HasPrefix(text, "\x1f\x8b"), utf8.ValidString(text) && (isBootData(text) || r.Text(text) != text):
		return mask
	}
	return instead
}
