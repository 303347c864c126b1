package azuretest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is one of Azure's SDKs, whose types are generated from the published API.
type module struct{ version, sum string }

func modules() []module {
	const base = "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/"
	return []module{
		{version: base + "compute/armcompute/v7@v7.3.0", sum: computeSum},
		{version: base + "network/armnetwork/v7@v7.2.0", sum: networkSum},
	}
}

// The sums of the modules.
const (
	computeSum = "h1:nyxugFxG2uhbMeJVCFFuD2j9wu+6KgeabITdINraQsE="
	networkSum = "h1:DgqO2jYgDEqmN8W5sPP+ZU7Tfxyn+i9RqXtNsX6Enb8="
)

// shapes are the types that the double knows, by the package of their module. What they
// consist of beside these is left out.
func shapes() map[string][]string {
	return map[string][]string{
		"armcompute": {
			"VirtualMachine", "VirtualMachineIdentity", "UserAssignedIdentitiesValue", "Plan", "VirtualMachineProperties",
			"HardwareProfile", "StorageProfile", "ImageReference", "OSDisk", "DataDisk", "ManagedDiskParameters",
			"VMDiskSecurityProfile", "OSProfile", "LinuxConfiguration", "SSHConfiguration", "SSHPublicKey", "NetworkProfile",
			"NetworkInterfaceReference", "NetworkInterfaceReferenceProperties", "VirtualMachineNetworkInterfaceConfiguration",
			"VirtualMachineNetworkInterfaceConfigurationProperties", "VirtualMachineNetworkInterfaceIPConfiguration",
			"VirtualMachineNetworkInterfaceIPConfigurationProperties", "SubResource", "DiagnosticsProfile", "BootDiagnostics",
			"SecurityProfile", "UefiSettings", "CapacityReservationProfile", "BillingProfile", "VirtualMachineInstanceView",
			"InstanceViewStatus", "Disk", "DiskSKU", "DiskProperties", "CreationData", "ImageDiskReference",
			"VirtualMachineListResult", "DiskList", "RetrieveBootDiagnosticsDataResult", "ResourceSKU", "ResourceSKUsResult",
			"ResourceSKUCapabilities", "ResourceSKURestrictions", "VirtualMachineImage", "VirtualMachineImageProperties",
			"PurchasePlan",
		},
		"armnetwork": {
			"Interface", "InterfacePropertiesFormat", "InterfaceIPConfiguration", "InterfaceIPConfigurationPropertiesFormat",
			"InterfaceListResult",
		},
	}
}

// source is a package of a module, read as text: its types, the names of their fields on
// the wire, and the values of its enumerations.
type source struct {
	types map[string]*ast.StructType
	wire  map[string]map[string]string
	enums map[string][]string
}

var (
	marshals = regexp.MustCompile(`(?s)func \(\w (\w+)\) MarshalJSON\(\).*?\n}`)
	field    = regexp.MustCompile(`populate\w*(?:\[[^]]*\])?\(objectMap, "([^"]+)", \w\.(\w+)\)`)
)

func read(t *testing.T, dir string) source {
	t.Helper()
	s := source{types: map[string]*ast.StructType{}, wire: map[string]map[string]string{}, enums: map[string][]string{}}
	for _, name := range []string{"models.go", "constants.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				s.declared(g)
			}
		}
	}
	for _, name := range []string{"models_serde.go", "responses.go"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range marshals.FindAllStringSubmatch(string(text), -1) {
			s.wire[m[1]] = map[string]string{}
			for _, f := range field.FindAllStringSubmatch(m[0], -1) {
				s.wire[m[1]][f[2]] = f[1]
			}
		}
	}
	return s
}

func (s source) declared(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch x := spec.(type) {
		case *ast.TypeSpec:
			if st, ok := x.Type.(*ast.StructType); ok {
				s.types[x.Name.Name] = st
			}
		case *ast.ValueSpec:
			of, typed := x.Type.(*ast.Ident)
			for _, v := range x.Values {
				if lit, ok := v.(*ast.BasicLit); ok && typed {
					value, _ := strconv.Unquote(lit.Value)
					s.enums[of.Name] = append(s.enums[of.Name], value)
				}
			}
		}
	}
}

// member is a field of a shape.
type member struct {
	// Type is string, integer, number, boolean, time, any or a shape, with list: or map: before
	// it for several.
	Type     string   `json:"type"`
	Enum     []string `json:"enum,omitempty"`
	Required bool     `json:"required,omitempty"`
	ReadOnly bool     `json:"readOnly,omitempty"`
}

// kind is the type of a field as a member has it.
func (s source) kind(e ast.Expr, known []string) (string, []string) {
	switch x := e.(type) {
	case *ast.StarExpr:
		return s.kind(x.X, known)
	case *ast.ArrayType:
		of, enum := s.kind(x.Elt, known)
		return "list:" + of, enum
	case *ast.MapType:
		of, enum := s.kind(x.Value, known)
		return "map:" + of, enum
	case *ast.SelectorExpr:
		return "time", nil
	case *ast.Ident:
		plain := map[string]string{
			"string": "string", "bool": "boolean", "int32": "integer", "int64": "integer",
			"float64": "number", "float32": "number",
		}
		if p := plain[x.Name]; p != "" {
			return p, nil
		}
		if enum := s.enums[x.Name]; enum != nil {
			return "string", enum
		}
		if slices.Contains(known, x.Name) {
			return x.Name, nil
		}
	}
	return "any", nil
}

func (s source) shape(t *testing.T, name string, known []string) map[string]member {
	t.Helper()
	if s.types[name] == nil || s.wire[name] == nil {
		t.Fatalf("the SDK has no type %s", name)
	}
	out := map[string]member{}
	for _, f := range s.types[name].Fields.List {
		wire := s.wire[name][f.Names[0].Name]
		if wire == "" {
			t.Fatalf("%s.%s has no name on the wire", name, f.Names[0].Name)
		}
		m := member{}
		m.Type, m.Enum = s.kind(f.Type, known)
		if slices.Contains([]string{"VMSize", "vmSize"}, wire) {
			m.Enum = nil // it grows every month: those that a Cloud has are among its settings
		}
		m.Required, m.ReadOnly = strings.HasPrefix(f.Doc.Text(), "REQUIRED"), strings.HasPrefix(f.Doc.Text(), "READ-ONLY")
		out[wire] = m
	}
	return out
}

// fetch returns the directory of a module. It skips the test where that cannot be had.
func fetch(t *testing.T, m module) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it downloads large modules")
	}
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", m.version)
	cmd.Dir = t.TempDir() // in no module, so that none requires it
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("the module with the model cannot be had: %v", err)
	}
	var got struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &got); err != nil || got.Sum != m.sum {
		t.Fatalf("%s has the sum %s, %v, want %s", m.version, got.Sum, err, m.sum)
	}
	return got.Dir
}

// extract is the text of model.json: a line for each shape.
func extract(t *testing.T) []byte {
	t.Helper()
	line := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var lines, from []string
	for _, m := range modules() {
		s := read(t, fetch(t, m))
		known := shapes()["armcompute"]
		if strings.Contains(m.version, "armnetwork") {
			known = shapes()["armnetwork"]
		}
		for _, name := range slices.Sorted(slices.Values(known)) {
			shape := s.shape(t, name, known)
			lines = append(lines, line(name)+": "+line(shape))
		}
		from = append(from, m.version)
	}
	return fmt.Appendf(nil, "{\"source\": %s,\n\"shapes\": {\n%s\n}}\n",
		line(strings.Join(from, ", ")+", MIT License, Copyright (c) Microsoft Corporation"), strings.Join(lines, ",\n"))
}

// TestModelIsCurrent: the extract is what Microsoft publishes. AZURETEST_UPDATE=1 writes it.
func TestModelIsCurrent(t *testing.T) {
	t.Parallel()
	const name = "model.json"
	got := extract(t)
	if os.Getenv("AZURETEST_UPDATE") != "" {
		if err := os.WriteFile(name, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the SDK says, %v; AZURETEST_UPDATE=1 writes it", name, err)
	}
}
