package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/internal/redact"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// The parts of the page. The script is one, of several files.
var (
	//go:embed page/index.html
	index string
	//go:embed page/app.css
	style string
	//go:embed page/*.js
	scripts embed.FS
)

// scriptFiles are in the order in which they use each other.
var scriptFiles = []string{
	"base.js", "data.js", "finding.js", "fleet.js", "pool.js", "timeline.js", "object.js", "app.js",
}

// script is the script of the page.
func script() string {
	var all strings.Builder
	all.WriteString("\"use strict\";\n(() => {\n")
	for _, name := range scriptFiles {
		text, err := scripts.ReadFile("page/" + name)
		if err != nil {
			panic(err) // it was not embedded
		}
		all.Write(text)
	}
	all.WriteString("})();\n")
	return all.String()
}

// servedPage is the page that asks for everything else.
func servedPage() string {
	return filled("", `<link rel="stylesheet" href="/app.css">`, `<script src="/app.js"></script>`)
}

// filled is the page with its three parts.
func filled(meta, style, script string) string {
	return strings.NewReplacer("<!--policy-->", meta, "<!--style-->", style, "<!--script-->", script).Replace(index)
}

// hash is a source of a policy: a text that may be in the page.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// mostObjects is how many objects a file explains one by one, those first that lack something.
const mostObjects = 2000

// saved is the data of a page without a server.
type saved struct {
	State   Dashboard     `json:"state"`
	Tree    explain.Tree  `json:"tree"`
	Top     explain.Top   `json:"top"`
	Objects []savedObject `json:"objects"`
}

// savedObject is what is known about one object.
type savedObject struct {
	Why      explain.Explanation `json:"why"`
	Timeline explain.Timeline    `json:"timeline"`
}

// staticPage is one file with the page, its script and style, and the state. It may load nothing.
func staticPage(s *snapshot) ([]byte, error) {
	data, err := s.saved()
	if err != nil {
		return nil, err
	}
	code := script()
	meta := `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src ` + hash(code) +
		`; style-src ` + hash(style) + `; base-uri 'none'; form-action 'none'">`
	return []byte(filled(meta, "<style>"+style+"</style>",
		`<script type="application/json" id="data">`+string(data)+"</script>\n<script>"+code+"</script>")), nil
}

// saved is the state as JSON without what looks like a secret, for a script element: no text in it ends one.
func (s *snapshot) saved() ([]byte, error) {
	s.using.Lock()
	defer s.using.Unlock()
	all := saved{State: s.about(nil), Tree: s.selected(true), Top: s.top, Objects: []savedObject{}}
	for _, o := range s.explained(all.Tree.Items) {
		all.Objects = append(all.Objects, savedObject{s.facts.Why(o), s.facts.Timeline(o)})
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, err
	}
	redactor := redact.New()
	redactor.Object(content)
	text, err = json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return bytes.TrimSpace([]byte(cloud.KnownRedactor(redactor.Secrets()).Text(string(text)))), nil
}

// explained are the objects of a tree, those first that lack something.
func (s *snapshot) explained(branches []*explain.Branch) []*explain.Object {
	var lacking, rest []*explain.Object
	var walk func([]*explain.Branch)
	walk = func(branches []*explain.Branch) {
		for _, b := range branches {
			for _, o := range s.facts.Find(b.Object.Kind, b.Object.Name) {
				switch {
				case o.Ref != b.Object:
				case b.Missing != nil:
					lacking = append(lacking, o)
				default:
					rest = append(rest, o)
				}
			}
			walk(b.Children)
		}
	}
	walk(branches)
	found := slices.Concat(lacking, rest)
	return found[:min(len(found), mostObjects)]
}
