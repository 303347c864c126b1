package redact

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// mask stands for what was removed.
	mask         = "[redacted]"
	shortest     = 8 // bytes of a value that is looked for elsewhere
	shortestWord = 16
)

// A Redactor removes what looks like a secret, and remembers the values, for other places have them
// under no name. It is not safe for concurrent use.
type Redactor struct{ known map[string]bool }

// New returns a Redactor that has removed nothing yet.
func New() Redactor { return Redactor{known: map[string]bool{}} }

// Secrets are the values that were removed because of their name, sorted; those that may be
// ordinary words are not among them.
func (r Redactor) Secrets() []string { return slices.Sorted(maps.Keys(r.known)) }

// Words that the name of a secret has, without regard to case and to what separates them; whole
// names; endings of names of something else, such as secretRef; and fields with boot data.
var (
	secretWords = []string{
		"password", "passwd", "passphrase", "secret", "token", "userdata", "cloudconfig", "cloudinit", "privatekey",
		"accesskey", "apikey", "signingkey", "clientkey", "encryptionkey", "keydata", "keymaterial", "signature", "urlsig",
		"amzcredential", "cookie", "otlpheaders", "otlptracesheaders",
	}
	secretNames = []string{"sig", "pass", "pwd", "psk", "jwt"}
	references  = []string{"ref", "refs", "name", "names", "namespace", "ttl", "seconds", "groups", "kind", "version"}
	bootFields  = []string{
		"credential", "credentials", "auth", "authorization", "content", "contents", "ignition", "runcmd", "bootcmd",
		"bootcommands", "prekubeadmcommands", "postkubeadmcommands",
	}
	inReference = []string{
		"name", "namespace", "kind", "apiVersion", "apiGroup", "secretName", "optional", "defaultMode",
	}
)

// plain is a name without case and separators.
func plain(name string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return unicode.ToLower(c)
		}
		return -1
	}, name)
}

// isSecret reports whether something of that name may be a secret.
func isSecret(name string) bool {
	name = plain(name)
	if slices.ContainsFunc(references, func(end string) bool { return strings.HasSuffix(name, end) }) {
		return false
	}
	return slices.Contains(secretNames, name) ||
		slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}

// Object redacts an object in place, and removes what is in it twice.
func (r Redactor) Object(content map[string]any) {
	unstructured.RemoveNestedField(content, "metadata", "managedFields")
	unstructured.RemoveNestedField(content, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	r.fields(content, false)
}

// fields redacts a map. hidden reports whether it is the value of a secret.
func (r Redactor) fields(content map[string]any, hidden bool) {
	for name, value := range content {
		called := name
		if name == "value" { // of a variable or a tag
			for _, field := range []string{"name", "key"} {
				if text, ok := content[field].(string); ok {
					called = text
				}
			}
		}
		secret := isSecret(called) || slices.Contains(bootFields, plain(called))
		content[name] = r.value(value, (hidden || secret) && !slices.Contains(inReference, name))
	}
}

// value is what is left of the value of a field.
func (r Redactor) value(value any, hidden bool) any {
	switch v := value.(type) {
	case map[string]any:
		r.fields(v, hidden)
	case []any:
		for i := range v {
			v[i] = r.value(v[i], hidden || i > 0 && isFlag(v[i-1]))
		}
	case string:
		if hidden {
			return r.hide(v)
		}
		return r.document(v)
	case int64, float64:
		if hidden {
			return mask
		}
	}
	return value
}

var flag = regexp.MustCompile(`^--?[\w-]+$`)

// isFlag reports whether an argument is a flag whose value, the next one, may be a secret.
func isFlag(argument any) bool {
	text, ok := argument.(string)
	return ok && flag.MatchString(text) && isSecret(text)
}

// hide masks a value, and remembers it unless it may be an ordinary word.
func (r Redactor) hide(value string) string {
	trimmed := strings.TrimSpace(value)
	if trimmed == "" {
		return value
	}
	if len(trimmed) >= shortestWord || len(trimmed) >= shortest && strings.ContainsAny(trimmed, "0123456789") {
		r.known[trimmed] = true
	}
	return mask
}

// document redacts a string, which may be YAML or JSON itself, or boot data.
func (r Redactor) document(text string) string {
	if isBootData(text) {
		return r.hide(text)
	}
	var content any
	if strings.ContainsAny(text, "\n{[") && yaml.Unmarshal([]byte(text), &content) == nil {
		switch content.(type) {
		case map[string]any, []any:
			before, _ := yaml.Marshal(content) // cannot fail for what was YAML
			after, err := yaml.Marshal(r.value(content, false))
			if err == nil && string(after) != string(before) {
				return string(after)
			}
		}
	}
	return r.Text(text)
}

// isBootData reports whether text is what cloud-init or Ignition runs.
func isBootData(text string) bool {
	begin := strings.TrimSpace(text)
	for _, prefix := range []string{"#!", "## template:", "#include", "Content-Type: multipart", "MIME-Version:"} {
		if strings.HasPrefix(begin, prefix) {
			return true
		}
	}
	return strings.Contains(begin, "#cloud-config") ||
		strings.HasPrefix(begin, "{") && strings.Contains(begin, `"ignition"`)
}
