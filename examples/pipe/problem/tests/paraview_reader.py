"""What ParaView's own reader (VTK's) finds in a file of a field."""

from dataclasses import dataclass
from pathlib import Path

from vtkmodules.vtkCommonDataModel import vtkDataSetAttributes
from vtkmodules.vtkIOXML import vtkXMLUnstructuredGridReader


@dataclass(frozen=True)
class Grid:
    """Counts, and the components of each array by its name."""

    points: int
    cells: int
    point_data: dict[str, int]
    cell_data: dict[str, int]


def read_as_paraview(path: Path) -> Grid:
    reader = vtkXMLUnstructuredGridReader()
    reader.SetFileName(str(path))
    reader.Update()
    assert reader.GetErrorCode() == 0, path
    grid = reader.GetOutput()
    return Grid(
        grid.GetNumberOfPoints(), grid.GetNumberOfCells(), components(grid.GetPointData()), components(grid.GetCellData())
    )


def components(data: vtkDataSetAttributes) -> dict[str, int]:
    arrays = (data.GetArray(k) for k in range(data.GetNumberOfArrays()))
    return {array.GetName(): array.GetNumberOfComponents() for array in arrays}
