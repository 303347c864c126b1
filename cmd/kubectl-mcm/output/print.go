// Package output prints what commands of kubectl mcm that only read have found: tables for
// people, and what kubectl's printers make for programs.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
)

// Formats for people, and that of names alone. All others are for programs.
const (
	Table = ""
	Wide  = "wide"
	Name  = "name"
)

// customColumns is kubectl get's form of a table of one's own.
const customColumns = "custom-columns="

// Flags are how a command prints. The zero value prints a table.
type Flags struct {
	Format    string
	NoHeaders bool
	// Also are formats that the command has besides.
	Also []string
}

// Add adds the flags to a command. Its --output takes the place of that of other commands.
func (f *Flags) Add(cmd *cobra.Command) {
	words := append([]string{Wide, "json", "yaml", Name}, f.Also...)
	all := append([]string{}, words...)
	all = append(all, "jsonpath=...", "go-template=...", customColumns+"...")
	cmd.Flags().StringVarP(&f.Format, "output", "o", "", "output: "+strings.Join(all, ", "))
	cmd.Flags().BoolVar(&f.NoHeaders, "no-headers", false, "print no headers")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// Validate refuses formats that there are not.
func (f *Flags) Validate() error {
	if f.ForPeople() || f.Format == Name || slices.Contains(f.Also, f.Format) {
		return nil
	}
	_, err := f.printer()
	return err
}

// ForPeople reports whether the output is a table.
func (f *Flags) ForPeople() bool { return f.Format == Table || f.Format == Wide }

func (f *Flags) printer() (printers.ResourcePrinter, error) {
	if columns, ok := strings.CutPrefix(f.Format, customColumns); ok {
		return newColumns(columns, f.NoHeaders)
	}
	return genericclioptions.NewPrintFlags("").WithDefaultOutput(f.Format).ToPrinter()
}

// Print prints v, which has apiVersion and kind, as a program wants it.
func (f *Flags) Print(out io.Writer, v any) error {
	printer, err := f.printer()
	if err != nil {
		return err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	content := map[string]any{}
	if err := json.Unmarshal(text, &content); err != nil {
		return err
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: content}, out)
}

// Headers begins a table with its headers, unless they are not wanted.
func (f *Flags) Headers(titles ...string) [][]Cell {
	if f.NoHeaders {
		return nil
	}
	return [][]Cell{Row(titles...)}
}

// Warn tells what was left out.
func Warn(out io.Writer, unread []string) {
	for _, text := range unread {
		fmt.Fprintln(out, "Warning: not read:", text)
	}
}
