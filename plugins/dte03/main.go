// Module dte03 computes the tax credit voucher (DTE-03).
package main

import "dtegate/plugins/sdk"

func init() { sdk.Register(description, evaluate) }

func main() {}
