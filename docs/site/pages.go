package main

import (
	"path"
	"strings"
)

// A group is a part of the navigation.
type group struct {
	title  string
	folder string // what a link to this folder leads to is a list of the group; "" if there is none
	aside  bool   // its pages come later in the results of a search
	pages  []page
}

// A page is a Markdown file of the repository.
type page struct {
	file  string
	label string // in the navigation; "" is the heading of the page
}

// groups is the navigation: every page of docs once, in the order in which to read them.
func groups() []group {
	return []group{
		{title: "Start", pages: []page{
			{"README.md", "Overview"},
			{"docs/guide.md", "Guide"},
			{"docs/installation.md", ""},
			{"docs/faq.md", ""},
			{"docs/architecture.md", ""},
			{"CHANGELOG.md", ""},
			{"docs/security.md", ""},
			{"SECURITY.md", "Reporting a vulnerability"},
		}},
		{title: "Operators", pages: list("docs/", "operations", "kubectl-mcm", "troubleshooting", "monitoring",
			"autoscaler", "userdata", "in-place-updates", "migration", "gardener", "annotations")},
		{title: "Clouds", folder: "docs/clouds", pages: list("docs/clouds/", "aws", "azure", "gcp", "hetzner", "kubevirt",
			"openstack", "vsphere", "sim", "conformance")},
		{title: "API", folder: "docs/api", pages: list("docs/api/", "machine", "machineset",
			"machinedeployment", "machineclass", "mcmcluster", "mcmmachine", "mcmremediation", "mcmconfig",
			"mcmexternalcontrolplane")},
		{title: "API reference", folder: "docs/api/reference", aside: true, pages: list("docs/api/reference/", "machine",
			"infrastructure", "bootstrap", "controlplane")},
		{title: "Contributors", pages: append([]page{{"CONTRIBUTING.md", ""}}, list("docs/", "testing", "protocol",
			"proof", "performance", "adding-a-cloud", "driver-contract", "drivers-outside")...)},
		{title: "Decisions", folder: "docs/adr", aside: true, pages: list("docs/adr/", "0001-one-manager-two-leases",
			"0002-one-error-code-per-reaction", "0003-no-cel-in-the-native-crds", "0004-two-losses-are-an-outage",
			"0005-one-record-names-the-source-of-truth", "0006-one-fence-at-the-transport", "0007-capacity-fallback",
			"0008-no-machine-pools", "0009-private-boot-data")},
	}
}

// list has pages of a folder that are called as their headings say.
func list(folder string, names ...string) []page {
	pages := make([]page, len(names))
	for i, name := range names {
		pages[i] = page{file: folder + name + ".md"}
	}
	return pages
}

// address is where a page is in the site. The pages of docs are at its top, others of the repository's top
// in a folder of their own, since some names are there twice.
func address(file string) string {
	name, below := strings.CutPrefix(strings.TrimSuffix(file, ".md"), "docs/")
	switch {
	case file == "README.md":
		return "index.html"
	case below:
		return name + ".html"
	}
	return "project/" + strings.ToLower(name) + ".html"
}

// listAddress is where the list of a group with a folder is.
func listAddress(folder string) string {
	return path.Join(strings.TrimPrefix(folder, "docs/"), "index.html")
}
