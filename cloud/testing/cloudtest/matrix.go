package cloudtest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Row is how one cloud did: a row of the matrix.
type Row struct {
	Cloud string
	Cells map[string]Cell // by case

	mu *sync.Mutex
}

// Cell is how one case went.
type Cell struct {
	Ran, Failed bool
	Holes       map[string]string // case or part, and why it was not tried
}

// String is "ok", "FAIL", "part" (some parts are holes), "–" (a hole) or "?"
// (not tried).
func (c Cell) String() string {
	switch {
	case !c.Ran:
		return "?"
	case c.Failed:
		return "FAIL"
	case len(c.Holes) == 0:
		return "ok"
	}
	for key := range c.Holes {
		if !strings.Contains(key, "/") {
			return "–"
		}
	}
	return "part"
}

func newRow() *Row { return &Row{Cells: map[string]Cell{}, mu: &sync.Mutex{}} }

func (r *Row) cloud(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Cloud = name
}

// change replaces the cell of the case that key belongs to.
func (r *Row) change(key string, f func(c Cell) Cell) {
	id, _, _ := strings.Cut(key, "/")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Cells[id] = f(r.Cells[id])
}

func (r *Row) start(id string) {
	r.change(id, func(Cell) Cell { return Cell{Ran: true, Failed: true, Holes: map[string]string{}} })
}

func (r *Row) finish(id string, failed bool) {
	r.change(id, func(c Cell) Cell { c.Failed = failed; return c })
}

func (r *Row) hole(key, why string) {
	r.change(key, func(c Cell) Cell { c.Holes[key] = why; return c })
}

// Merge returns the one row of a cloud that was tried in several ways, by their
// names. A case ran if it did in all of them, and failed if it did in any. What
// is a hole in some ways only is a hole of those: "C10" becomes "C10/Spot".
func Merge(ways map[string]Row) Row {
	all := newRow()
	ids, _ := Cases()
	for _, id := range ids {
		cell := Cell{Ran: true, Holes: map[string]string{}}
		for _, way := range slices.Sorted(maps.Keys(ways)) {
			all.cloud(ways[way].Cloud)
			c := ways[way].Cells[id]
			cell.Ran, cell.Failed = cell.Ran && c.Ran, cell.Failed || c.Failed
			for key, why := range c.Holes {
				if !everywhere(ways, id, key) {
					key += "/" + way
				}
				cell.Holes[key] = why
			}
		}
		all.Cells[id] = cell
	}
	return *all
}

// everywhere reports whether key is a hole in all ways.
func everywhere(ways map[string]Row, id, key string) bool {
	for _, row := range ways {
		if row.Cells[id].Holes[key] == "" {
			return false
		}
	}
	return true
}

// String is one line.
func (r Row) String() string {
	ids, _ := Cases()
	var b strings.Builder
	fmt.Fprintf(&b, "conformance %s:", r.Cloud)
	for _, id := range ids {
		fmt.Fprintf(&b, " %s=%v", id, r.Cells[id])
	}
	return b.String()
}

// publish logs the row and, if asked for, records it.
func (r *Row) publish(t *testing.T, unrecorded bool) {
	t.Helper()
	t.Log(r.String())
	file := os.Getenv("CLOUDTEST_MATRIX")
	if file == "" || unrecorded {
		return
	}
	if err := r.Record(file); err != nil {
		t.Errorf("record the matrix: %v", err)
	}
}

// Record writes the row into the matrix in file, in Markdown, in place of an
// earlier row of the same cloud. Rows of other clouds stay. It fails when a case
// was not tried. Not for several processes at once.
func (r Row) Record(file string) error {
	ids, _ := Cases()
	for _, id := range ids {
		if !r.Cells[id].Ran {
			return fmt.Errorf("case %s was not tried", id)
		}
	}
	old, err := os.ReadFile(filepath.Clean(file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(file, []byte(r.merge(string(old))), 0o644)
}

// merge returns the document old with this row.
func (r Row) merge(old string) string {
	rows := map[string]string{r.Cloud: r.line()}
	holes := r.holes()
	for line := range strings.Lines(old) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "| `"):
			if name := between(line, "| `", "`"); name != r.Cloud {
				rows[name] = padded(line)
			}
		case strings.HasPrefix(line, "- `"):
			if between(line, "- `", "` ") != r.Cloud {
				holes = append(holes, line)
			}
		}
	}
	slices.Sort(holes)
	ids, reasons := Cases()
	var b strings.Builder
	b.WriteString(preamble)
	fmt.Fprintf(&b, "| cloud | %s |\n|---|%s\n", strings.Join(ids, " | "), strings.Repeat("---|", len(ids)))
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rows[name] + "\n")
	}
	b.WriteString("\n## Holes\n\n")
	for _, h := range holes {
		b.WriteString(h + "\n")
	}
	b.WriteString("\n## Cases\n\n")
	for _, id := range ids {
		fmt.Fprintf(&b, "* **%s** %s\n", id, reasons[id])
	}
	return b.String()
}

// padded is the row of another cloud with a cell for each case that was added since it was written: not tried yet.
func padded(line string) string {
	ids, _ := Cases()
	const borders = 2 // of the column with the cloud
	missing := len(ids) + borders - strings.Count(line, "|")
	return line + strings.Repeat(" ? |", max(missing, 0))
}

const preamble = `# Conformance of the clouds

Written by the conformance kit (` + "`make conformance CLOUD=x`" + `); do not edit. ` +
	`A row is a cloud, a column a case (below).
*ok*: tried and kept; *part*: some parts could not be tried; *–*: could not be tried; the reasons follow the table;
*?*: the cloud was not tried since the case is there.

`

// line is the row of the table.
func (r Row) line() string {
	ids, _ := Cases()
	cells := make([]string, 0, len(ids))
	for _, id := range ids {
		cells = append(cells, r.Cells[id].String())
	}
	return fmt.Sprintf("| `%s` | %s |", r.Cloud, strings.Join(cells, " | "))
}

// holes are the lines of what could not be tried.
func (r Row) holes() []string {
	var lines []string
	for _, c := range r.Cells {
		for key, why := range c.Holes {
			lines = append(lines, fmt.Sprintf("- `%s` %s: %s", r.Cloud, key, strings.Join(strings.Fields(why), " ")))
		}
	}
	return lines
}

// between returns what stands in s between the prefix from and the next to.
func between(s, from, to string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(s, from), to)
	return name
}
