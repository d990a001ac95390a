// Module dte05 computes the credit note (DTE-05).
package main

import "dtegate/plugins/sdk"

var description = sdk.NoteDescription("dte05")

func init() { sdk.Register(description, sdk.Note) }

func main() {}
