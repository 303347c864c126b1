package house

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func isMarkdown(name string) bool { return strings.HasSuffix(name, ".md") }

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	notSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	codeText = regexp.MustCompile("(?s)```.*?```")
	codeSpan = regexp.MustCompile("`[^`\n]*`")
)

func TestLinksResolve(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, isMarkdown) {
		text := codeSpan.ReplaceAllString(codeText.ReplaceAllString(read(t, name), ""), "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target := match[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			if file = path.Join(path.Dir(name), file); strings.HasPrefix(target, "#") {
				file = name
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, target)
			} else if anchor != "" && isMarkdown(file) && !slices.Contains(anchors(read(t, file)), anchor) {
				t.Errorf("%s links to %s, but there is no such heading", name, target)
			}
		}
	}
}

// anchors returns the anchors of a document's headings.
func anchors(text string) []string {
	var found []string
	for _, match := range heading.FindAllStringSubmatch(codeText.ReplaceAllString(text, ""), -1) {
		slug := notSlug.ReplaceAllString(strings.ToLower(match[1]), "")
		found = append(found, strings.ReplaceAll(strings.TrimSpace(slug), " ", "-"))
	}
	return found
}

func TestEveryConditionAndReasonIsDocumented(t *testing.T) {
	t.Parallel()
	var docs strings.Builder
	for _, name := range files(t, under("docs/api", isMarkdown)) {
		if path.Dir(name) == "docs/api" { // the reference has values, and not what they are for
			docs.WriteString(read(t, name))
		}
	}
	var missing []string
	for _, s := range sources(t, func(name string) bool {
		return strings.HasPrefix(name, "api/") && path.Base(name) == "conditions.go"
	}) {
		for name, value := range constants(s) {
			if !strings.Contains(docs.String(), "`"+value+"`") {
				missing = append(missing, name+" "+value)
			}
		}
	}
	slices.Sort(missing)
	for _, m := range missing {
		t.Errorf("docs/api/*.md does not say what `%s` means", m)
	}
}

var (
	reasonRow = regexp.MustCompile("(?m)^\\| `(\\w+)`.* \\| ([^|]+) \\|$")
	ourKinds  = []string{
		"Machine", "MachineSet", "MachineDeployment", "MCMCluster", "MCMMachine", "MCMRemediation", "MCMConfig",
		"MCMExternalControlPlane",
	}
)

// TestReasonsAreOnThePagesOfTheirKinds: what docs/troubleshooting.md explains of a kind is listed on its page. Those
// of sets and deployments are on the page of Machines, too.
func TestReasonsAreOnThePagesOfTheirKinds(t *testing.T) {
	t.Parallel()
	reasons, _, _ := strings.Cut(read(t, "docs/troubleshooting.md"), "\n## Events\n")
	rows := reasonRow.FindAllStringSubmatch(reasons, -1)
	if len(rows) < 150 {
		t.Errorf("only %d reasons found", len(rows))
	}
	for _, row := range rows {
		for _, kind := range strings.FieldsFunc(row[2], func(r rune) bool { return r == ',' || r == ';' }) {
			if kind = strings.TrimSpace(kind); !slices.Contains(ourKinds, kind) {
				continue
			}
			page := read(t, "docs/api/"+strings.ToLower(kind)+".md")
			if kind == "MachineSet" || kind == "MachineDeployment" {
				page += read(t, "docs/api/machine.md")
			}
			if !strings.Contains(page, "`"+row[1]+"`") {
				t.Errorf("docs/api/%s.md does not list the reason %s", strings.ToLower(kind), row[1])
			}
		}
	}
}

// constants returns the string constants of a file by name.
func constants(s source) map[string]string {
	found := map[string]string{}
	for _, declaration := range s.file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			for i, name := range value.Names {
				if literal, ok := value.Values[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
					found[name.Name], _ = strconv.Unquote(literal.Value)
				}
			}
		}
	}
	return found
}

// TestEveryKindIsDocumented: a kind has a page and a template a section of it, and each links to its fields.
func TestEveryKindIsDocumented(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, under("config/crd", func(name string) bool {
		return strings.HasSuffix(name, ".yaml")
	})) {
		kind := crdKind.FindStringSubmatch(read(t, name))
		if kind == nil {
			continue
		}
		base := strings.TrimSuffix(strings.ToLower(kind[1]), "template") + ".md"
		group, _, _ := strings.Cut(path.Base(name), ".")
		reference := "](reference/" + group + ".md#" + strings.ToLower(kind[1]) + ")"
		if text, err := os.ReadFile(filepath.Join(root, "docs/api", base)); err != nil {
			t.Errorf("docs/api/%s is not there: every kind has a page, its template a section of it", base)
		} else if !strings.Contains(string(text), "# "+kind[1]+"\n") || !strings.Contains(string(text), reference) {
			t.Errorf("docs/api/%s has no heading %s, or does not link to its %s", base, kind[1], reference)
		}
	}
}

var crdKind = regexp.MustCompile(`(?m)^    kind: (\w+)$`)

func TestReadmeBeginsWithTheTwoCommands(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	demo, test := strings.Index(readme, "make demo"), strings.Index(readme, "make test")
	if demo < 0 || test < 0 || max(demo, test) > 1200 {
		t.Error("README.md does not open with make demo and make test")
	}
	for _, command := range []string{"make test <", "make test-real <"} {
		if !strings.Contains(read(t, ".ci/run"), command) {
			t.Errorf(".ci/run does not run %s, a test command of the README", strings.TrimSuffix(command, " <"))
		}
	}
}

func TestMakeTargets(t *testing.T) {
	t.Parallel()
	makefile := read(t, "Makefile")
	for _, target := range []string{
		"demo", "test", "test-real", "check", "controlplane", "generate", "verify", "lint", "conformance", "simulate",
		"bench", "chaos", "e2e", "autoscaler", "guests", "start", "release", "docs",
	} {
		if !regexp.MustCompile(`(?m)^` + target + `:.* ## \S`).MatchString(makefile) {
			t.Errorf("Makefile: no target %s with a ## comment", target)
		}
	}
}

func TestDecisionsAreNumbered(t *testing.T) {
	t.Parallel()
	numbers := map[string]string{}
	for _, name := range files(t, under("docs/adr", isMarkdown)) {
		base := path.Base(name)
		if !regexp.MustCompile(`^\d{4}-[a-z0-9-]+\.md$`).MatchString(base) {
			t.Errorf("%s: a decision is called NNNN-what-it-says.md", name)
			continue
		}
		if other, taken := numbers[base[:4]]; taken {
			t.Errorf("%s and %s have the same number", name, other)
		}
		numbers[base[:4]] = name
	}
	if len(numbers) == 0 {
		t.Error("docs/adr is empty")
	}
	for i, number := range slices.Sorted(maps.Keys(numbers)) {
		if want := strconv.Itoa(10001 + i)[1:]; number != want {
			t.Errorf("%s: the next number is %s", numbers[number], want)
			break
		}
	}
}

var (
	registered = regexp.MustCompile(`(?:fs|flags)\.\w+VarP?\([^,]+, "([a-z0-9-]+)"`)
	documented = regexp.MustCompile("`--([a-z0-9-]+)`")
)

// TestFlagsAreDocumented: docs/operations.md and the manager know the same
// flags.
func TestFlagsAreDocumented(t *testing.T) {
	t.Parallel()
	const page = "docs/operations.md"
	flags := map[string]bool{}
	for _, name := range slices.Concat(files(t, under("manager", isSource)), []string{"cmd/manager/main.go"}) {
		for _, match := range registered.FindAllStringSubmatch(read(t, name), -1) {
			flags[match[1]] = true
		}
	}
	if len(flags) == 0 {
		t.Fatal("no flag found in manager")
	}
	described := map[string]bool{}
	for _, match := range documented.FindAllStringSubmatch(read(t, page), -1) {
		described[match[1]] = true
	}
	for flag := range flags {
		if !described[flag] {
			t.Errorf("%s does not explain --%s", page, flag)
		}
	}
	for _, known := range []string{
		"worker-count", "v", "vmodule", "logging-format",
		"machine-creation-timeout-growth-percent", "machine-replace-cycle-count-threshold",
	} {
		flags[known] = true // an alias, those of Kubernetes' logging, and those of newer MCMs
	}
	for flag := range described {
		if !flags[flag] {
			t.Errorf("%s explains --%s, which the manager does not have", page, flag)
		}
	}
}

var (
	testName   = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`")
	makeTarget = regexp.MustCompile("`make ([a-z0-9-]+)")
)

// TestPagesNameWhatThereIs: a test that a page names as the proof of a claim, and a target of make, exist.
func TestPagesNameWhatThereIs(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	for _, name := range files(t, isTest) {
		tests.WriteString(read(t, name))
	}
	makefile := "\n" + read(t, "Makefile")
	for _, name := range files(t, isMarkdown) {
		page := read(t, name)
		for _, found := range testName.FindAllStringSubmatch(page, -1) {
			if !strings.Contains(tests.String(), "\nfunc "+found[1]+"(") {
				t.Errorf("%s names %s, which does not exist", name, found[1])
			}
		}
		for _, found := range makeTarget.FindAllStringSubmatch(page, -1) {
			if !strings.Contains(makefile, "\n"+found[1]+":") {
				t.Errorf("%s names make %s, which does not exist", name, found[1])
			}
		}
	}
}
