package vsphere

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// messageMax is how many bytes of vCenter's messages an error keeps.
const messageMax = 1000

// messageOf returns what vCenter says about the fault in err: the text of the call
// or task that failed, the messages of the fault, and those of its cause. It is
// empty when vCenter gives no text.
func messageOf(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		if soap.IsSoapFault(err) {
			f := soap.ToSoapFault(err)
			return joined(append([]string{f.String}, messages(f.VimFault())...))
		}
		if soap.IsVimFault(err) {
			return joined(messages(soap.ToVimFault(err)))
		}
		if t, ok := err.(taskError); ok { //nolint:errorlint // every link of the chain is looked at
			return joined(append([]string{t.text}, messages(t.fault)...))
		}
	}
	return ""
}

// messages are the texts in a fault and in what caused it.
func messages(f types.AnyType) []string {
	base, ok := pointerTo(f).(types.BaseMethodFault)
	if !ok || reflect.ValueOf(base).IsNil() {
		return nil
	}
	var all []string
	fault := base.GetMethodFault()
	for _, m := range fault.FaultMessage {
		all = append(all, m.Message)
	}
	if cause := fault.FaultCause; cause != nil {
		all = append(all, cause.LocalizedMessage)
		all = append(all, messages(cause.Fault)...)
	}
	return all
}

// joined returns the texts in one line, each once.
func joined(texts []string) string {
	var kept []string
	for _, text := range texts {
		text = strings.TrimRight(strings.Join(strings.Fields(text), " "), ". ")
		if text != "" && !slices.Contains(kept, text) {
			kept = append(kept, text)
		}
	}
	line := strings.Join(kept, "; ")
	if len(line) > messageMax {
		line = strings.ToValidUTF8(line[:messageMax], "") + "…"
	}
	return line
}

// colon puts a message behind a text; an empty one adds nothing.
func colon(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// pointerTo returns a fault as a pointer: the fault of a call is a value, that of a
// task is a pointer already.
func pointerTo(f types.AnyType) types.AnyType {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Struct {
		return f
	}
	pointer := reflect.New(v.Type())
	pointer.Elem().Set(v)
	return pointer.Interface()
}
