package validate

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// Report is what is wrong with manifests.
type Report struct {
	metav1.TypeMeta `json:",inline"`
	Files           int       `json:"files"`
	Judged          int       `json:"judged"`  // objects
	Skipped         int       `json:"skipped"` // objects of kinds of others
	Problems        []Problem `json:"problems"`
}

// Severity is what a problem does.
type Severity string

// The severities.
const (
	Error   Severity = "Error"   // the object is refused, or does not work
	Warning Severity = "Warning" // it is ignored
	Note    Severity = "Note"    // it cannot be judged here
)

// Problem is something wrong with an object.
type Problem struct {
	File     string       `json:"file"`
	Object   *explain.Ref `json:"object,omitempty"` // none: the file has none there
	Field    string       `json:"field,omitempty"`
	Severity Severity     `json:"severity"`
	Message  string       `json:"message"` // what is wrong, and the remedy
}

// String is the line of a problem.
func (p *Problem) String() string {
	parts := []string{p.File}
	if p.Object != nil {
		parts = append(parts, p.Object.Kind+"/"+cmp.Or(p.Object.Name, "(no name)"))
	}
	if p.Field != "" {
		parts = append(parts, p.Field)
	}
	return strings.Join(append(parts, p.Message), ": ")
}

// count is how many problems have a severity.
func (r *Report) count(s Severity) int {
	n := 0
	for i := range r.Problems {
		if r.Problems[i].Severity == s {
			n++
		}
	}
	return n
}

// sort puts the worst first, and otherwise keeps the order of the files.
func (r *Report) sort() {
	order := []Severity{Error, Warning, Note}
	slices.SortStableFunc(r.Problems, func(a, b Problem) int {
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	})
}

func (r *Report) print(out io.Writer) {
	shades := map[Severity]output.Colour{Error: output.Red, Warning: output.Yellow, Note: output.Plain}
	for i := range r.Problems {
		p := &r.Problems[i]
		fmt.Fprintf(out, "%s %s\n", output.Paint(out, string(p.Severity)+":", shades[p.Severity]), p)
	}
	fmt.Fprintf(out, "%s, %s, %s in %s; %s not judged\n", number(r.count(Error), "error"),
		number(r.count(Warning), "warning"), number(r.count(Note), "note"), number(r.Judged, "object"),
		number(r.Skipped, "object of another kind", "objects of other kinds"))
}

// number is a count with its word, which has a plural of its own or one with an s.
func number(n int, words ...string) string {
	if n == 1 {
		return "1 " + words[0]
	}
	return fmt.Sprintf("%d %s", n, append(words, words[0]+"s")[1])
}
