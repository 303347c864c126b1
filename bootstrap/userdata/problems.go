package userdata

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// problems collects what is wrong with a spec.
type problems struct{ found []error }

// add notes what is wrong with a field, and after a semicolon what to do.
func (p *problems) add(field, format string, args ...any) {
	p.found = append(p.found, fmt.Errorf("%s: %w", field, fmt.Errorf(format, args...)))
}

func (p *problems) err() error {
	if len(p.found) == 0 {
		return nil
	}
	return fmt.Errorf("the spec is refused:\n%w", errors.Join(p.found...))
}

func (p *problems) oneOf(field, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		p.add(field, "%q is none of its values; write one of: %s", value, strings.Join(allowed, ", "))
	}
}

func (p *problems) required(field, value, example string) bool {
	if value == "" {
		p.add(field, "it is missing; write e.g. %s", example)
	}
	return value != ""
}

// version wants one with a leading v if example has it.
func (p *problems) version(field, value, example string) {
	if !p.required(field, value, example) {
		return
	}
	bare := strings.TrimPrefix(value, "v")
	_, err := semver.Parse(bare)
	if err != nil || strings.HasPrefix(value, "v") != strings.HasPrefix(example, "v") {
		p.add(field, "%q is no version of this form; write e.g. %s", value, example)
	}
}

var sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (p *problems) sha256(field, value, of string) {
	switch {
	case value == "":
		p.add(field, "it is missing; write the sha256 that the publisher of %s states for this version and architecture", of)
	case !sha256Pattern.MatchString(value):
		p.add(field, "%q is no sha256; write 64 digits of lower-case hexadecimal", value)
	}
}

// url wants an absolute one without what a line of a script, TOML or an environment file gives a meaning.
func (p *problems) url(field, value string, schemes ...string) *url.URL {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme) || strings.ContainsAny(value, "\"'\\ \t\n$`") {
		p.add(field, "it is no URL of %s; write e.g. %s://host.example.com", strings.Join(schemes, " or "), schemes[0])
		return nil
	}
	return u
}

// address is a url without a user and a password: it ends up in files that all users of a machine read.
func (p *problems) address(field, value string, schemes ...string) {
	if u := p.url(field, value, schemes...); u != nil && u.User != nil {
		p.add(field, "it has credentials, which every user of the machine could read; remove them")
	}
}

func (p *problems) certificate(field, value string) {
	block, _ := pem.Decode([]byte(value))
	switch {
	case strings.Contains(value, privateKeyEnd):
		p.add(field, "it has a private key; write the certificate alone")
	case block == nil || block.Type != "CERTIFICATE":
		p.add(field, "it is no certificate in PEM; write text that begins with -----BEGIN CERTIFICATE-----")
	}
}

// line refuses what would break out of a line of a configuration file.
func (p *problems) line(field, value string) {
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		p.add(field, "it has control characters; write one line of text")
	}
}

// word wants text that means the same in TOML, in units and in a shell.
func (p *problems) word(field, value string, pattern *regexp.Regexp, example string) {
	if !pattern.MatchString(value) {
		p.add(field, "%q cannot be used here; write something like %s", value, example)
	}
}

const privateKeyEnd = "PRIVATE KEY-----"
