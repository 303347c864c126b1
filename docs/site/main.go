// Command site makes the documentation a site: plain pages that need no server, no network and no other
// file than those beside them. make docs writes it to out/docs.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", "../..", "folder of the repository")
	out := flag.String("out", "../../out/docs", "folder to write to; what is in it is replaced")
	flag.Parse()
	if err := run(*root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "wrote %s/index.html\n", *out)
}

// run builds the site and puts it in the place of the one before.
func run(root, out string) error {
	files, err := build(os.DirFS(root), groups())
	if err != nil {
		return err
	}
	if err := removeSite(out); err != nil {
		return err
	}
	return write(files, out)
}
