// Package sbom lists what a Go program is made of, as the program itself records
// it, in the two forms that scanners read.
package sbom

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const license = "Apache-2.0"

// A Program is what an SBOM is about.
type Program struct {
	Name, Version string
	Created       time.Time
	modules       []*debug.Module
	path          string // of its main module
	goVersion     string
}

// Read returns the program in binary under the name and version of a release.
func Read(binary io.ReaderAt, name, version string, created time.Time) (Program, error) {
	info, err := buildinfo.Read(binary)
	if err != nil {
		return Program{}, fmt.Errorf("read what %s was built from: %w", name, err)
	}
	p := Program{Name: name, Version: version, Created: created, path: info.Main.Path, goVersion: info.GoVersion}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		p.modules = append(p.modules, m)
	}
	return p, nil
}

// packageURL names a module in the way that databases of vulnerabilities do.
func packageURL(path, version string) string { return "pkg:golang/" + path + "@" + version }

// CycloneDX returns the SBOM in CycloneDX's JSON. Equal programs have equal SBOMs.
func (p Program) CycloneDX() ([]byte, error) {
	bom := cdx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(packageURL(p.Name, p.Version))).URN()
	subject := packageURL(p.path, p.Version) + "#" + p.Name
	bom.Metadata = &cdx.Metadata{
		Timestamp: p.Created.UTC().Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: subject, Type: cdx.ComponentTypeApplication, Name: p.Name, Version: p.Version,
			PackageURL: packageURL(p.path, p.Version),
			Licenses:   &cdx.Licenses{{License: &cdx.License{ID: license}}},
		},
	}
	components := []cdx.Component{p.standardLibrary()}
	for _, m := range p.modules {
		components = append(components, cdx.Component{
			BOMRef: packageURL(m.Path, m.Version), Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
			PackageURL: packageURL(m.Path, m.Version),
		})
	}
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom.Components, bom.Dependencies = &components, &[]cdx.Dependency{{Ref: subject, Dependencies: &refs}}
	var text bytes.Buffer
	err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return text.Bytes(), err
}

func (p Program) standardLibrary() cdx.Component {
	version := p.goVersion[len("go"):]
	return cdx.Component{
		BOMRef: packageURL("stdlib", version), Type: cdx.ComponentTypeLibrary, Name: "stdlib", Version: version,
		PackageURL: packageURL("stdlib", version),
	}
}

// SPDX returns the SBOM as an SPDX 2.3 document. Equal programs have equal SBOMs.
func (p Program) SPDX() *spdx.Document {
	document := &spdx.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      p.Name + "-" + p.Version,
		DocumentNamespace: "https://" + p.path + "/spdx/" + p.Name + "-" + p.Version,
		CreationInfo: &v2_3.CreationInfo{
			Created:  p.Created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "capmcm"}},
		},
		Packages:      []*v2_3.Package{spdxPackage("Program", p.Name, p.Version, packageURL(p.path, p.Version), license)},
		Relationships: []*v2_3.Relationship{relation("DOCUMENT", "DESCRIBES", "Program")},
	}
	library := p.standardLibrary()
	modules := append([]*debug.Module{{Path: library.Name, Version: library.Version}}, p.modules...)
	for i, m := range modules {
		id := common.ElementID(fmt.Sprintf("Module-%d", i))
		document.Packages = append(document.Packages,
			spdxPackage(id, m.Path, m.Version, packageURL(m.Path, m.Version), "NOASSERTION"))
		document.Relationships = append(document.Relationships, relation("Program", "DEPENDS_ON", id))
	}
	return document
}

func spdxPackage(id common.ElementID, name, version, url, license string) *v2_3.Package {
	return &v2_3.Package{
		PackageName: name, PackageSPDXIdentifier: id, PackageVersion: version, PackageDownloadLocation: "NOASSERTION",
		PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: license, PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: url,
		}},
	}
}

func relation(from common.ElementID, kind string, to common.ElementID) *v2_3.Relationship {
	return &v2_3.Relationship{
		RefA: common.DocElementID{ElementRefID: from}, Relationship: kind, RefB: common.DocElementID{ElementRefID: to},
	}
}
