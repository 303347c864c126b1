package output

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
)

// columns are the columns that somebody has asked for, of the items of what is printed or, if it
// has none, of itself.
type columns struct {
	titles    []string
	values    []*jsonpath.JSONPath
	noHeaders bool
}

var errColumns = errors.New("write custom-columns=TITLE:PATH,..., " +
	"e.g. custom-columns=NAME:.object.name,REASON:.missing.reason")

// newColumns reads TITLE:PATH,....
func newColumns(text string, noHeaders bool) (*columns, error) {
	c := &columns{noHeaders: noHeaders}
	for part := range strings.SplitSeq(text, ",") {
		title, path, ok := strings.Cut(part, ":")
		if !ok || title == "" || path == "" {
			return nil, fmt.Errorf("--output: %q is no column: %w", part, errColumns)
		}
		value := jsonpath.New(title).AllowMissingKeys(true)
		path = strings.TrimPrefix(strings.Trim(path, "{}"), ".")
		if err := value.Parse("{." + path + "}"); err != nil {
			return nil, fmt.Errorf("--output: column %s: %w", title, err)
		}
		c.titles, c.values = append(c.titles, title), append(c.values, value)
	}
	return c, nil
}

// PrintObj prints the table.
func (c *columns) PrintObj(object runtime.Object, out io.Writer) error {
	content := object.(*unstructured.Unstructured).Object
	items, list := content["items"].([]any)
	if !list {
		items = []any{content}
	}
	var rows [][]Cell
	if !c.noHeaders {
		rows = append(rows, Row(c.titles...))
	}
	for _, item := range items {
		row := make([]Cell, 0, len(c.values))
		for _, value := range c.values {
			var text strings.Builder
			if err := value.Execute(&text, item); err != nil {
				return err
			}
			if text.Len() == 0 {
				text.WriteString("<none>") // as kubectl get does
			}
			row = append(row, Cell{Text: text.String()})
		}
		rows = append(rows, row)
	}
	PrintTable(out, rows)
	return nil
}
