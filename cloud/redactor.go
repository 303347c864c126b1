package cloud

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math/bits"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	mask = "[redacted]"

	shortestRun    = 12 // bytes of a credential that are looked for wherever they are in it
	shortestSecret = 6  // bytes of a value that is looked for as a whole; less would hide ordinary words
	shortestWord   = 16 // bytes of a word of boot data that is looked for on its own
)

// SecretReader is implemented by a Driver whose credentials are documents of which a part is secret
// only, such as a kubeconfig.
type SecretReader interface {
	// SecretsIn returns the secrets in the value of a credential; ok is false if the value is no such
	// document, so that all of it is secret. It may return none.
	SecretsIn(key string, value []byte) (secrets []string, ok bool)
}

// Redactor masks secrets in texts. It is safe for concurrent use, and does not change. A nil one
// masks nothing.
type Redactor struct {
	whole *strings.Replacer
	runs  runs
}

// RedactorOf returns what masks credentials for a driver: each value as a whole, and of those that
// the driver declares as a credential each run of 12 bytes or more, so that a cloud which quotes a
// part of a token does not give it away.
func RedactorOf(d Driver, creds Credentials) *Redactor {
	traits := d.Traits()
	var whole, secret []string
	for _, key := range slices.Sorted(maps.Keys(creds)) {
		value := creds[key]
		whole = append(whole, string(value))
		switch {
		case traits.IsCredential(key):
			secret = append(secret, secretsIn(d, key, value)...)
		case IsBootData(key) || !traits.IsAddress(key) && !slices.Contains(traits.Secret.Public, key):
			whole = append(whole, linesOf(string(value))...)
		}
	}
	return NewRedactor(append(whole, secret...), secret)
}

// secretsIn returns what of a credential is secret.
func secretsIn(d Driver, key string, value []byte) []string {
	if reader, ok := d.(SecretReader); ok {
		if secrets, ok := reader.SecretsIn(key, value); ok {
			return secrets
		}
	}
	return []string{string(value)}
}

// NewRedactor returns what masks values as a whole, if they have 6 bytes, and of secrets also each
// run of 12 bytes or more: as they are, and in the encodings of base64, URLs and JSON.
func NewRedactor(whole, secrets []string) *Redactor {
	var forms []string
	for _, value := range whole {
		if len(value) >= shortestSecret {
			forms = append(forms, encodings(value)...)
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, form := range slices.Compact(forms) {
		if len(form) >= shortestSecret {
			pairs = append(pairs, form, mask)
		}
	}
	r := &Redactor{whole: strings.NewReplacer(pairs...)}
	var all []string
	for _, secret := range secrets {
		all = append(all, runForms(secret)...)
	}
	r.runs = newRuns(all)
	return r
}

// BootDataRedactor returns what masks boot data, and those of its words that may be a token.
func BootDataRedactor(data []byte) *Redactor {
	text := string(data)
	return NewRedactor(append(wordsOf(text), text), nil)
}

// KnownRedactor returns what masks values that were found to be secret, such as those in a dump of
// objects: each as a whole, the words of one with lines, and each run of 12 bytes of one that is a word.
func KnownRedactor(values []string) *Redactor {
	whole, words := slices.Clone(values), []string(nil)
	for _, value := range values {
		whole = append(whole, linesOf(value)...)
		if len(strings.Fields(value)) == 1 {
			words = append(words, value)
		}
	}
	return NewRedactor(whole, words)
}

// Text returns a text without the secrets.
func (r *Redactor) Text(text string) string {
	if r == nil {
		return text
	}
	return r.whole.Replace(r.runs.mask(text))
}

// Problems returns problems whose texts are without the secrets. The argument stays as it is.
func (r *Redactor) Problems(problems []Problem) []Problem {
	problems = slices.Clone(problems)
	for i := range problems {
		problems[i].Field, problems[i].Message = r.Text(problems[i].Field), r.Text(problems[i].Message)
	}
	return problems
}

// Error returns err without the secrets, itself if it has none; Code, Reason and chain are what they
// were. An error that is no *Error becomes one of code Unknown. op is the operation of one that names
// none. Nil stays nil.
func (r *Redactor) Error(op string, err error) error {
	if err == nil {
		return nil
	}
	found, ok := errors.AsType[*Error](err)
	if !ok {
		found = &Error{Code: Unknown, Op: op, Reason: "Unclassified", Err: err}
	}
	e := *found
	if ok && error(found) != err { //nolint:errorlint // itself, not one that wraps it
		e.Err = err // a wrapping error's own words are kept
	}
	e.Op = cmp.Or(e.Op, op)
	if e.Err == nil {
		e.Err = errors.New("no cause given")
	}
	e.Op, e.Reason, e.Problems = r.Text(e.Op), r.Text(e.Reason), r.Problems(e.Problems)
	text := e.Err.Error()
	clean := r.Text(text)
	if clean != text {
		e.Err = &redacted{text: clean, cause: e.Err}
	} else if error(found) == err && found.Err != nil && //nolint:errorlint // itself, as above
		e.Op == found.Op && e.Reason == found.Reason && slices.Equal(e.Problems, found.Problems) {
		return err
	}
	return &e
}

// redacted is an error with another text. What it stands for can be recognised
// by errors.Is and errors.As, and not be printed by accident.
type redacted struct {
	text  string
	cause error
}

func (r *redacted) Error() string        { return r.text }
func (r *redacted) GoString() string     { return r.text }
func (r *redacted) Is(target error) bool { return errors.Is(r.cause, target) }
func (r *redacted) As(target any) bool   { return errors.As(r.cause, target) }

// encodings returns the forms in which a whole value gets into texts.
func encodings(value string) []string {
	b := []byte(value)
	return append(
		escapes(value), strings.TrimSpace(value),
		base64.StdEncoding.EncodeToString(b), base64.RawStdEncoding.EncodeToString(b),
		base64.URLEncoding.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b),
		url.QueryEscape(base64.StdEncoding.EncodeToString(b)),
	)
}

// escapes returns a value as it is, and as URLs, JSON and Go's own texts write it.
func escapes(value string) []string {
	quoted, _ := json.Marshal(value) // never fails for a string
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // nor does this
	unquoted := func(s string) string { return strings.Trim(strings.TrimSpace(s), `"`) }
	return []string{
		value, url.QueryEscape(value), url.PathEscape(value), unquoted(string(quoted)), unquoted(plain.String()),
		unquoted(strconv.Quote(value)),
	}
}

// runForms returns the forms of a secret whose parts are looked for. Base64 writes three bytes as four
// characters, so that a part of the secret reads in one of three ways. The lines that begin and end
// a PEM block are no secret.
func runForms(secret string) []string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(secret), "\n"), func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), "-----")
	})
	secret = strings.Join(lines, "\n")
	forms := append(escapes(secret), strings.Join(strings.Fields(secret), ""))
	const ways = 3
	for skip := range min(ways, len(secret)) {
		b := []byte(secret[skip:])
		std := base64.RawStdEncoding.EncodeToString(b)
		forms = append(forms, std, base64.RawURLEncoding.EncodeToString(b), url.QueryEscape(std))
	}
	return forms
}

// linesOf returns the words of a value that has several lines.
func linesOf(value string) []string {
	if !strings.Contains(strings.TrimSpace(value), "\n") {
		return nil
	}
	return wordsOf(value)
}

// wordsOf returns those words of a text that may be a token.
func wordsOf(text string) []string {
	var words []string
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return strings.ContainsRune(" \t\r\n\"'`<>,;()[]{}", r)
	}) {
		if len(w) >= shortestWord {
			words = append(words, w)
		}
		for part := range strings.FieldsFuncSeq(w, func(r rune) bool { return strings.ContainsRune("=:/@", r) }) {
			if len(part) >= shortestWord {
				words = append(words, part)
			}
		}
	}
	return words
}

// runs are the runs of 12 bytes of secrets, as hashes: sorted, and before that in a filter of bits,
// which most places of a text do not pass. The zero value has none.
type runs struct {
	filter []uint64
	hashes []uint64
}

// newRuns returns the runs of these texts.
func newRuns(texts []string) runs {
	var r runs
	for _, text := range texts {
		for at := 0; at+shortestRun <= len(text); at++ {
			r.hashes = append(r.hashes, hashOf(text[at:at+shortestRun]))
		}
	}
	if len(r.hashes) == 0 {
		return runs{}
	}
	slices.Sort(r.hashes)
	r.hashes = slices.Clip(slices.Compact(r.hashes))
	const bitsPerRun, wordBits = 16, 64
	words := 1 << bits.Len(uint(len(r.hashes)*bitsPerRun/wordBits))
	r.filter = make([]uint64, words)
	for _, h := range r.hashes {
		word, bit := r.place(h)
		r.filter[word] |= bit
	}
	return r
}

// hashOf mixes the bytes of a run.
func hashOf(run string) uint64 {
	const (
		first, second = 0x9e3779b97f4a7c15, 0xff51afd7ed558ccd // odd numbers without a pattern
		half          = 32
	)
	b := []byte(run)
	h := binary.LittleEndian.Uint64(b)*first ^ bits.RotateLeft64(uint64(binary.LittleEndian.Uint32(b[8:]))*second, half)
	h ^= h >> half
	h *= second
	return h ^ h>>half
}

// place returns where the filter has a hash.
func (r runs) place(h uint64) (word int, bit uint64) {
	const low = 6                                                           // bits of a place within a word
	return int(h >> low & uint64(len(r.filter)-1)), 1 << (h & (1<<low - 1)) //nolint:gosec // below that length
}

// has reports whether a run is one of a secret's.
func (r runs) has(run string) bool {
	h := hashOf(run)
	word, bit := r.place(h)
	if r.filter[word]&bit == 0 {
		return false
	}
	_, found := slices.BinarySearch(r.hashes, h)
	return found
}

// mask masks each part of a text that runs cover. What touches is one part.
func (r runs) mask(text string) string {
	if len(r.hashes) == 0 {
		return text
	}
	var out strings.Builder
	kept, from, to := 0, 0, 0 // what of the text is written, and the part that is covered
	for at := 0; at+shortestRun <= len(text); at++ {
		if !r.has(text[at : at+shortestRun]) {
			continue
		}
		if at > to {
			if to > 0 {
				out.WriteString(text[kept:from] + mask)
				kept = to
			}
			from = at
		}
		to = at + shortestRun
	}
	if to == 0 {
		return text
	}
	out.WriteString(text[kept:from] + mask + text[to:])
	return out.String()
}
