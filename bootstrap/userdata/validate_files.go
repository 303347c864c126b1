package userdata

import (
	"encoding/base64"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/userdata/content"
)

var (
	permissionsPattern = regexp.MustCompile(`^0[0-7]{3}$`)
	pathPattern        = regexp.MustCompile(`^/[A-Za-z0-9._/@:+-]+$`)
	unitPattern        = regexp.MustCompile(`^[A-Za-z0-9_.@:-]+\.(service|socket|timer|path|mount|target|slice)$`)
	dropInPattern      = regexp.MustCompile(`^[A-Za-z0-9_.-]+\.conf$`)
	namePattern        = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$`)
)

func (p *problems) checkFiles(s *Spec) {
	taken := ownPaths(s)
	for i, file := range s.Files {
		field := fmt.Sprintf("spec.files[%d]", i)
		p.word(field+".path", file.Path, pathPattern, "/etc/example/file.conf")
		p.word(field+".permissions", file.Permissions, permissionsPattern, `"0644", in quotes`)
		if path.Clean(file.Path) != file.Path {
			p.add(field+".path", "%q is no plain path; write %q", file.Path, path.Clean(file.Path))
		}
		if slices.Contains(taken, file.Path) {
			p.add(field+".path", "%s is written already; use the field of the spec for it, or another path", file.Path)
		}
		taken = append(taken, file.Path)
		if file.Encoding != "" {
			p.oneOf(field+".encoding", file.Encoding, encodingBase64)
		}
		p.checkContent(field+".content", &file)
	}
}

func (p *problems) checkContent(field string, file *File) {
	data, err := file.content()
	switch {
	case err != nil:
		p.add(field, "it is no base64: %w; correct it, or remove encoding", err)
	case file.Encoding != "" && hasPlaceholder(data):
		p.add(field, "the manager does not see a placeholder in base64; write it as plain text")
	default:
		p.checkText(field, string(data))
	}
}

// checkText refuses placeholders in what a format has to encode, where the manager does not see them.
func (p *problems) checkText(field, text string) {
	if hasPlaceholder([]byte(text)) && !content.IsText([]byte(text)) {
		p.add(field, "it has a placeholder, which the manager sees in plain text alone, and a control character such as "+
			"a carriage return; remove one of the two")
	}
}

// content returns the bytes of the file.
func (f *File) content() ([]byte, error) {
	if f.Encoding != encodingBase64 {
		return []byte(f.Content), nil
	}
	return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(f.Content), ""))
}

func hasPlaceholder(data []byte) bool {
	return strings.Contains(string(data), tokenPlaceholder) || strings.Contains(string(data), machinePlaceholder)
}

// ownUnits are written or started by the generator.
var ownUnits = []string{setupUnit, afterUnit, kubeletUnit, containerdUnit}

func (p *problems) checkUnits(s *Spec) {
	var seen []string
	masked := s.masked()
	for i := range s.Units {
		unit := &s.Units[i]
		field := fmt.Sprintf("spec.units[%d]", i)
		p.checkUnit(field, unit)
		p.checkDropIns(field, unit, s)
		if slices.Contains(seen, unit.Name) {
			p.add(field+".name", "%s is there twice; put everything into one entry", unit.Name)
		}
		seen = append(seen, unit.Name)
		if slices.Contains(masked, unit.Name) {
			p.add(field+".name", "%s is masked by spec.system.updates or because it disturbs containerd; remove it", unit.Name)
		}
	}
}

func (p *problems) checkUnit(field string, unit *Unit) {
	p.word(field+".name", unit.Name, unitPattern, "example.service")
	p.oneOf(field+".start", unit.Start, none, beforeKubelet, afterKubelet)
	if slices.Contains(ownUnits, unit.Name) && (unit.Content != "" || unit.Mask || unit.Start != none) {
		p.add(field, "%s is the generator's own unit; change it by dropIns alone", unit.Name)
	}
	if unit.Mask && (unit.Content != "" || len(unit.DropIns) > 0 || unit.Start != none) {
		p.add(field+".mask", "a masked unit has no content and does not start; remove either")
	}
	p.checkText(field+".content", unit.Content)
}

func (p *problems) checkDropIns(field string, unit *Unit, s *Spec) {
	var taken []string
	if own := s.kubeletUnit(); own.Name == unit.Name {
		for _, dropIn := range own.DropIns {
			taken = append(taken, dropIn.Path)
		}
	}
	for j, dropIn := range unit.DropIns {
		at := fmt.Sprintf("%s.dropIns[%d]", field, j)
		p.word(at+".name", dropIn.Name, dropInPattern, "10-limits.conf")
		p.checkText(at+".content", dropIn.Content)
		if slices.Contains(taken, dropIn.Name) {
			p.add(at+".name", "%s has that drop-in already; choose another name", unit.Name)
		}
		taken = append(taken, dropIn.Name)
	}
}

func (p *problems) checkCommands(commands []Command) {
	var seen []string
	for i, command := range commands {
		field := fmt.Sprintf("spec.commands[%d]", i)
		p.word(field+".name", command.Name, namePattern, "mount-data")
		if slices.Contains(seen, command.Name) {
			p.add(field+".name", "%s is there twice; a command that has run is known by its name: choose another", command.Name)
		}
		seen = append(seen, command.Name)
		p.oneOf(field+".when", command.When, beforeKubelet, afterKubelet)
		p.oneOf(field+".run", command.Run, once, everyBoot)
		p.required(field+".script", command.Script, "a line of bash")
		p.checkText(field+".script", command.Script)
	}
}
