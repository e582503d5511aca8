"""What ParaView's own reader (VTK's) finds in a file of a field."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkCommonDataModel import vtkDataSetAttributes
from vtkmodules.vtkIOXML import vtkXMLUnstructuredGridReader


@dataclass(frozen=True)
class Grid:
    """Points, VTK's types of the cells, and the arrays by their names, a row a point or cell."""

    points: np.ndarray
    types: np.ndarray
    point_data: dict[str, np.ndarray]
    cell_data: dict[str, np.ndarray]


def read_as_paraview(path: Path) -> Grid:
    reader = vtkXMLUnstructuredGridReader()
    reader.SetFileName(str(path))
    reader.Update()
    assert reader.GetErrorCode() == 0, path
    grid = reader.GetOutput()
    # Copies, since what VTK gives ends with its grid.
    points, types = (vtk_to_numpy(one).copy() for one in (grid.GetPoints().GetData(), grid.GetCellTypesArray()))
    return Grid(points, types, arrays(grid.GetPointData()), arrays(grid.GetCellData()))


def arrays(data: vtkDataSetAttributes) -> dict[str, np.ndarray]:
    found = (data.GetArray(k) for k in range(data.GetNumberOfArrays()))
    return {array.GetName(): vtk_to_numpy(array).copy() for array in found}
